"""Slots of schedules: which were taken, and the last job queued for each schedule."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from hitherto_shared.database.pool import Connection

KEEP_DAYS = 7
"""Days for which a taken slot is stored; longer than any replica can be behind."""

# Across users: the latest taken slot of each schedule.
_TAKEN = """
SELECT schedule, max(slot) FROM schedule_runs GROUP BY schedule
"""

# The transaction that inserts the row has the slot. A slot older than a taken one is not run after
# it.
_TAKE = """
INSERT INTO schedule_runs (schedule, slot)
SELECT %(schedule)s, %(slot)s
WHERE NOT EXISTS (
    SELECT FROM schedule_runs WHERE schedule = %(schedule)s AND slot >= %(slot)s)
ON CONFLICT (schedule, slot) DO NOTHING
"""

_PRUNE = """
DELETE FROM schedule_runs
WHERE schedule = %(schedule)s AND slot < %(slot)s - make_interval(days => %(days)s)
"""

# Work that one process does at a time has one row here too, whose slot is no schedule's. Its
# `taken_at` says until when, and whose turn it is.
_TAKE_TURN = """
INSERT INTO schedule_runs (schedule, slot, taken_at)
VALUES (%(work)s, 'epoch', clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (schedule, slot) DO UPDATE SET taken_at = EXCLUDED.taken_at
WHERE schedule_runs.taken_at < clock_timestamp()
RETURNING taken_at
"""

_END_TURN = """
UPDATE schedule_runs SET taken_at = clock_timestamp()
WHERE schedule = %(work)s AND slot = 'epoch' AND taken_at = %(turn)s
"""

# Across users.
_TENANTS = "SELECT tenant_id FROM @tenants_of(users) AS known"

# Across users. The nodes of a cluster take no such steps: each looks at all of its users at once.
_TENANTS_OF_NODES = "SELECT DISTINCT tenant_id FROM users ORDER BY tenant_id"

_LAST = """
SELECT wanted.schedule,
       (SELECT r.taken_at FROM schedule_runs AS r
        WHERE r.schedule = wanted.schedule ORDER BY r.slot DESC LIMIT 1),
       (SELECT j.job_id FROM jobs AS j
        WHERE j.tenant_id = %(tenant_id)s AND j.schedule = wanted.schedule
        ORDER BY j.slot DESC LIMIT 1)
FROM unnest(%(schedules)s::text[]) AS wanted (schedule)
"""


async def taken(connection: Connection) -> dict[str, datetime]:
    """The latest taken slot of each schedule."""
    return dict(await connection.fetch_rows(_TAKEN))


async def take(connection: Connection, schedule: str, slot: datetime) -> bool:
    """Take a slot in this transaction; False if another one has it."""
    values = {"schedule": schedule, "slot": slot, "days": KEEP_DAYS}
    cursor = await connection.execute(_TAKE, values)
    if cursor.rowcount == 0:
        return False
    await connection.execute(_PRUNE, values)
    return True


async def take_turn(connection: Connection, work: str, *, seconds: float) -> datetime | None:
    """Take the turn at some work until `end_turn`, at most `seconds`; None if another has it."""
    row = await connection.fetch_row(_TAKE_TURN, {"work": work, "seconds": seconds})
    return None if row is None else row[0]


async def end_turn(connection: Connection, work: str, turn: datetime) -> None:
    """Leave the work to others, unless the turn was over and another has it."""
    await connection.execute(_END_TURN, {"work": work, "turn": turn})


async def tenants(connection: Connection) -> list[str]:
    """Every tenant that has users."""
    found = _TENANTS_OF_NODES if connection.is_distributed else _TENANTS
    return await connection.fetch_values(found, {})


async def last_runs(
    connection: Connection, tenant_id: str, schedules: Sequence[str]
) -> dict[str, tuple[datetime | None, UUID | None]]:
    """When each schedule last ran, and the last job it queued for this tenant."""
    values = {"tenant_id": tenant_id, "schedules": list(schedules)}
    return {row[0]: row[1:] for row in await connection.fetch_rows(_LAST, values)}
