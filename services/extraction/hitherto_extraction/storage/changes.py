"""Gives committed changes their place in the stream, and deletes old ones.

A sequence commits its numbers in any order, so that a reader would miss some. Therefore one
transaction at a time, which holds the row of `change_positions`, numbers what has been committed.
The role is hitherto_maintenance, and statements run across users.
"""

from __future__ import annotations

from dataclasses import dataclass

from hitherto_shared.changes import CHANNEL
from hitherto_shared.database.pool import Connection

_WAITING = "SELECT EXISTS (SELECT FROM memory_changes WHERE position IS NULL)"

# Another process that holds the row is numbering already.
_TAKE_TURN = "SELECT given FROM change_positions FOR UPDATE SKIP LOCKED"

# Changes of one user have numbers in their order, because their writers hold the user's row.
_NUMBER = """
WITH waiting AS MATERIALIZED (
    SELECT tenant_id, user_id, change_no
    FROM memory_changes
    WHERE position IS NULL
    ORDER BY change_no
    LIMIT %(limit)s
), placed AS MATERIALIZED (
    SELECT tenant_id, user_id, change_no,
           %(given)s + row_number() OVER (ORDER BY change_no) AS position
    FROM waiting
), counted AS (
    UPDATE change_positions SET given = (SELECT max(position) FROM placed)
    WHERE EXISTS (SELECT FROM placed)
)
UPDATE memory_changes AS c SET position = p.position
FROM placed AS p
WHERE c.tenant_id = p.tenant_id AND c.user_id = p.user_id AND c.change_no = p.change_no
RETURNING c.tenant_id, c.user_id, c.change_no, c.action
"""

_ANNOUNCE = "SELECT pg_notify(%(channel)s, '')"

# Deliveries go with their changes. What was never given a position has been read by nobody.
_DELETE_OLD = """
WITH gone AS (
    DELETE FROM memory_changes AS c
    USING (SELECT tenant_id, user_id, change_no
           FROM memory_changes
           WHERE recorded_at < now() - make_interval(days => %(days)s) AND position IS NOT NULL
           ORDER BY recorded_at
           LIMIT %(limit)s) AS old
    WHERE c.tenant_id = old.tenant_id AND c.user_id = old.user_id AND c.change_no = old.change_no
    RETURNING c.position
), noted AS (
    UPDATE change_positions
    SET deleted = greatest(deleted, (SELECT max(position) FROM gone))
    WHERE EXISTS (SELECT FROM gone)
)
SELECT count(*) FROM gone
"""


@dataclass(frozen=True, slots=True)
class PlacedChange:
    """A change that has just been given its position."""

    tenant_id: str
    user_id: str
    change_no: int
    action: str


async def any_waiting(connection: Connection) -> bool:
    """Whether a committed change has no position yet."""
    return bool(await connection.fetch_value(_WAITING, {}))


async def give_positions(connection: Connection, *, limit: int) -> list[PlacedChange]:
    """Give committed changes their positions, and announce them; none while another does so."""
    given = await connection.fetch_value(_TAKE_TURN, {})
    if given is None:
        return []
    placed = await connection.fetch(PlacedChange, _NUMBER, {"given": given, "limit": limit})
    if placed:
        await connection.later(_ANNOUNCE, {"channel": CHANNEL})
    return placed


async def delete_old(connection: Connection, *, days: int, limit: int) -> int:
    """Delete up to `limit` changes older than `days`, with their deliveries; returns how many."""
    return int(await connection.fetch_value(_DELETE_OLD, {"days": days, "limit": limit}))
