"""Consistency tokens: returned by a write, so that a later read is sure to include it.

A token names a position in the write-ahead log of one database and timeline, sealed and bound to
the tenant. A primary has always reached it; a replica has once it replayed that far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hitherto_shared.database.exchange import BoundStatement
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import invalid
from hitherto_shared.sealing import BrokenToken, Sealer

# Position, timeline (as the first eight digits of a WAL file's name) and database, after a commit,
# which has flushed the log up to itself. Later entries of other transactions need not be visible.
# A standby answers in place of the primary during a failover, and has what it replayed.
_POSITION = """
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
            ELSE pg_current_wal_flush_lsn() END::text,
       CASE WHEN pg_is_in_recovery()
            THEN (SELECT lpad(upper(to_hex(greatest(c.timeline_id, r.min_recovery_end_timeline))),
                              8, '0')
                  FROM pg_control_checkpoint() AS c, pg_control_recovery() AS r)
            ELSE left(pg_walfile_name(pg_current_wal_flush_lsn()), 8) END,
       (SELECT system_identifier::text FROM pg_control_system())
"""

# The position that this server shows: a standby what it replayed, a primary everything. Our roles
# cannot see the WAL sender, so a standby's timeline is read from its control file. That may lag
# behind a change of timeline, and then sends reads to the primary for a while.
_SHOWN = """
SELECT (SELECT system_identifier::text FROM pg_control_system()),
       CASE WHEN pg_is_in_recovery()
            THEN (SELECT greatest(c.timeline_id, r.min_recovery_end_timeline)
                  FROM pg_control_checkpoint() AS c, pg_control_recovery() AS r)
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END,
       CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()::text END
"""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in the log of one database."""

    lsn: str
    timeline: str
    database: str


_PRIMARY_ONLY = Position("0/0", "0", "")
"""A position that no standby ever reaches."""

_MOST_TOKENS = 16
_MOST_CHARACTERS = 16 * 1024
"""Above as many tokens of any database."""


async def current_position(connection: Connection) -> Position:
    """The present position of the log; taken after a commit it covers that commit."""
    [position] = await connection.fetch(Position, _POSITION, ())
    return position


async def commit_and_locate(connection: Connection) -> Position:
    """Commit the transaction of a pool's connection, as its last act; the position covers it."""
    answer = await connection.commit_and_ask(BoundStatement(_POSITION))
    return Position(*answer.rows[0])


async def bytes_missing(connection: Connection, position: Position) -> float:
    """How much log the server of `connection` has yet to replay to reach `position`.

    Returns:
        Bytes; 0 if it has reached it, infinity if it follows another timeline or belongs to another
        database and may never reach it.
    """
    [(database, timeline, replayed)] = await connection.fetch_rows(_SHOWN)
    if database != position.database or timeline != int(position.timeline, 16):
        return math.inf
    return 0.0 if replayed is None else float(max(0, _offset(position.lsn) - _offset(replayed)))


@dataclass(frozen=True, slots=True)
class Lineage:
    """Which history a server shows: that of a database on a timeline, as a standby or by itself."""

    database: str
    timeline: int
    standby: bool


async def lineage_of(connection: Connection) -> Lineage:
    """The lineage of the server of `connection`."""
    [(database, timeline, replayed)] = await connection.fetch_rows(_SHOWN)
    return Lineage(str(database), int(timeline), replayed is not None)


def _offset(lsn: str) -> int:
    """A position in the log, as Postgres writes it, in bytes from the beginning."""
    high, _, low = lsn.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


class ConsistencyTokens:
    """Creates and opens the tokens of one deployment."""

    def __init__(self, secret: bytes) -> None:
        self._sealer = Sealer(secret, "consistency")

    def make(self, position: Position, tenant_id: str) -> str:
        """A new token."""
        return self._sealer.seal(
            {"lsn": position.lsn, "tli": position.timeline, "db": position.database}, [tenant_id]
        )

    def open(self, token: str, tenant_id: str) -> Position:
        """The position in `token`; of several tokens, separated by spaces, one that covers all.

        Raises:
            InvalidRequest: Not a token of this deployment and tenant, or too many of them.
        """
        try:
            if len(token) > _MOST_CHARACTERS:
                raise BrokenToken
            tokens = token.split(" ")
            if len(tokens) > _MOST_TOKENS:
                raise BrokenToken
            payloads = [self._sealer.open(one, [tenant_id]) for one in tokens]
        except BrokenToken:
            raise invalid(
                "consistency_token",
                "is not a token of this deployment: send one exactly as a write returned it, or up "
                f"to {_MOST_TOKENS} separated by spaces",
                reason="INVALID_CONSISTENCY_TOKEN",
            ) from None
        return _covering([Position(found["lsn"], found["tli"], found["db"]) for found in payloads])


def _covering(positions: list[Position]) -> Position:
    """The position that includes all of these."""
    if len({(position.timeline, position.database) for position in positions}) > 1:
        # After a failover, only the primary is sure to show what both servers acknowledged.
        return _PRIMARY_ONLY
    return max(positions, key=lambda position: _offset(position.lsn))
