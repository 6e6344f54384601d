"""Consistency tokens: what a write tells its caller so that a later read can prove it saw it.

A token names a position in the write-ahead log of one database and timeline, sealed and bound to
the tenant. A primary has always seen it; a replica has once it replayed that far.
"""

from __future__ import annotations

from dataclasses import dataclass

from recollect_shared.database.pool import Connection
from recollect_shared.errors import invalid
from recollect_shared.sealing import BrokenToken, Sealer

# Position, timeline (the first eight digits of a WAL file's name) and database, after a commit.
_POSITION = """
SELECT pg_current_wal_insert_lsn()::text,
       left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
       (SELECT system_identifier::text FROM pg_control_system())
"""

# Whether this server has that position: true on a primary of the same database and timeline.
_SEEN = """
SELECT (SELECT system_identifier::text FROM pg_control_system()) = %(database)s
   AND CASE WHEN pg_is_in_recovery()
            THEN pg_last_wal_replay_lsn() >= %(lsn)s::pg_lsn
             AND (SELECT received_tli FROM pg_stat_wal_receiver)
                 = ('x' || %(timeline)s)::bit(32)::int
            ELSE true END
"""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the log of one database."""

    lsn: str
    timeline: str
    database: str


async def current_position(connection: Connection) -> Position:
    """Where the log stands now; taken after a commit it covers that commit."""
    cursor = await connection.execute(_POSITION)
    row = await cursor.fetchone()
    assert row is not None
    return Position(*row)


async def has_seen(connection: Connection, position: Position) -> bool:
    """Whether the server behind `connection` shows everything up to `position`."""
    cursor = await connection.execute(
        _SEEN,
        {
            "database": position.database,
            "lsn": position.lsn,
            "timeline": position.timeline,
        },
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


class ConsistencyTokens:
    """Makes and opens the tokens of one deployment."""

    def __init__(self, secret: bytes) -> None:
        self._sealer = Sealer(secret, "consistency")

    def make(self, position: Position, tenant_id: str) -> str:
        """The token to hand out."""
        return self._sealer.seal(
            {"lsn": position.lsn, "tli": position.timeline, "db": position.database}, [tenant_id]
        )

    def open(self, token: str, tenant_id: str) -> Position:
        """The position in `token`.

        Raises:
            InvalidRequest: Not a token of this deployment and tenant.
        """
        try:
            payload = self._sealer.open(token, [tenant_id])
        except BrokenToken:
            raise invalid(
                "consistency_token",
                "is not a token of this deployment: send one exactly as a write returned it",
                reason="INVALID_CONSISTENCY_TOKEN",
            ) from None
        return Position(payload["lsn"], payload["tli"], payload["db"])
