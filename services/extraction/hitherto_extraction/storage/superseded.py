"""What stands for a memory that was joined to another, merged with it or replaced by it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from uuid import UUID

from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import CURRENT_STATUSES

# For each of these the last memory of its chain: itself, unless it is superseded. Whoever takes a
# merge apart takes the merged words back: it is archived, and `parted`, and stands for nothing.
_HEADS = """
WITH RECURSIVE followed (start, memory_id, status, source, superseded_by, steps) AS (
    SELECT m.memory_id, m.memory_id, m.status, m.source, m.superseded_by, 0
    FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
      AND m.memory_id = ANY(%(memory_ids)s)
    UNION ALL
    SELECT f.start, m.memory_id, m.status, m.source, m.superseded_by, f.steps + 1
    FROM followed AS f
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = f.superseded_by
    WHERE f.status = 'superseded' AND f.steps < 64
)
SELECT start, memory_id, status, status = 'archived' AND source = 'consolidation' AND NOT EXISTS (
           SELECT FROM memories AS m
           WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
             AND m.superseded_by = followed.memory_id) AS parted
FROM followed
WHERE status <> 'superseded'
"""

# These memories, and what is superseded by one of them, directly or indirectly.
_STANDING_FOR = """
WITH RECURSIVE causes (memory_id) AS (
    SELECT unnest(%(memory_ids)s::uuid[])
    UNION
    SELECT m.memory_id
    FROM causes AS c
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.superseded_by = c.memory_id AND m.status = 'superseded'
)
SELECT memory_id FROM causes
"""

# Every memory that stands for one of these, directly or indirectly.
_ABOVE = """
WITH RECURSIVE above (memory_id) AS (
    SELECT m.superseded_by FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
      AND m.memory_id = ANY(%(memory_ids)s) AND m.status = 'superseded'
    UNION
    SELECT m.superseded_by
    FROM above AS a
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = a.memory_id
    WHERE m.status = 'superseded'
)
SELECT memory_id FROM above WHERE memory_id IS NOT NULL
"""

# Every merged memory that one of these went into, directly or indirectly, if it was made after
# the time that goes with it. The outermost come first.
_MERGED_ABOVE = """
WITH RECURSIVE above (memory_id, since, steps) AS (
    SELECT m.superseded_by, b.since, 1
    FROM unnest(%(memory_ids)s::uuid[], %(since)s::timestamptz[]) AS b (memory_id, since)
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = b.memory_id AND m.status = 'superseded'
    UNION
    SELECT m.superseded_by, a.since, a.steps + 1
    FROM above AS a
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = a.memory_id
    WHERE m.status = 'superseded' AND a.steps < 64
)
SELECT k.memory_id
FROM above AS a
JOIN memories AS k ON k.tenant_id = %(tenant_id)s AND k.user_id = %(user_id)s
     AND k.memory_id = a.memory_id
WHERE k.source = 'consolidation' AND (a.since IS NULL OR a.since <= k.created_at)
GROUP BY k.memory_id
ORDER BY max(a.steps) DESC, k.memory_id
"""


async def successors(user: UserRows, memory_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """For each of these memories that is superseded, what stands for it, whatever its status."""
    return {start: head for start, head, _, _ in await _heads(user, memory_ids) if start != head}


async def stand_ins(user: UserRows, memory_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """For each of these memories that is superseded, the current memory that stands for it."""
    return {
        start: head
        for start, head, status, _ in await _heads(user, memory_ids)
        if status in CURRENT_STATUSES and start != head
    }


async def that_stand(user: UserRows, memory_ids: Collection[UUID]) -> dict[UUID, bool]:
    """Whether these still say something, by themselves or by what stands for them.

    What was deleted is left out: nobody took it back.
    """
    found = await _heads(user, memory_ids)
    return {start: status != "forgotten" and not parted for start, _, status, parted in found}


async def standing_for(user: UserRows, memory_ids: Collection[UUID]) -> list[UUID]:
    """These memories, and all that they stand for: merged into one of them, or joined to it."""
    return await user.fetch_values(_STANDING_FOR, memory_ids=list(memory_ids))


async def above(user: UserRows, memory_ids: Collection[UUID]) -> set[UUID]:
    """All memories that stand for one of these: it was merged into them, joined or replaced."""
    if not memory_ids:
        return set()
    return set(await user.fetch_values(_ABOVE, memory_ids=list(memory_ids)))


async def merged_above(user: UserRows, since: Mapping[UUID, datetime | None]) -> list[UUID]:
    """Merged memories that these went into, directly or indirectly, the outermost first.

    Of each memory only those count that were made `since` a time; None: all.
    """
    return await user.fetch_values(
        _MERGED_ABOVE, memory_ids=list(since), since=list(since.values())
    )


async def untold(user: UserRows, memory_ids: Collection[UUID]) -> set[UUID]:
    """Those of these memories that are forgotten, or for which something forgotten stands."""
    found = await _heads(user, memory_ids)
    return {start for start, _, status, _ in found if status == "forgotten"}


async def _heads(
    user: UserRows, memory_ids: Collection[UUID]
) -> list[tuple[UUID, UUID, str, bool]]:
    """Each of these memories, with the last one of its chain, the status of that, and `parted`."""
    return list(await user.fetch_rows(_HEADS, memory_ids=list(memory_ids))) if memory_ids else []
