"""What stands beside a memory: others of its messages, and who else holds a value."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from hitherto_extraction.storage import sealed_memories
from hitherto_shared.database.arrays import Texts, Uuids
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import CURRENT_STATUSES, SourceRef

_MOST_SHARING = 100

_OF_SAME_MESSAGES = """
SELECT DISTINCT m.memory_id
FROM memory_sources AS s
JOIN memory_sources AS o ON o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
     AND o.conversation_id = s.conversation_id AND md5(o.message_id) = md5(s.message_id)
     AND o.message_id = s.message_id
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = o.memory_id AND m.status IN ('active', 'achieved')
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.memory_id = %(memory_id)s
  AND o.memory_id <> %(memory_id)s
ORDER BY m.memory_id
LIMIT %(limit)s
"""

# Those of the values that stand in the words in clear of another current memory.
_HELD_BY_OTHERS = """
SELECT wanted
FROM unnest(%(texts)s::text[]) AS wanted
WHERE EXISTS (
    SELECT FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
      AND m.status = ANY(%(statuses)s) AND m.memory_id <> ALL(%(without)s::uuid[])
      AND position(lower(wanted) IN lower(m.content)) > 0)
"""

# The messages of a memory of which another memory is forgotten: no context shows them.
_WITHHELD = """
SELECT DISTINCT s.conversation_id, s.message_id
FROM memory_sources AS s
JOIN memory_sources AS o ON o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
     AND o.conversation_id = s.conversation_id AND md5(o.message_id) = md5(s.message_id)
     AND o.message_id = s.message_id
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = o.memory_id AND m.status = 'forgotten'
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.memory_id = %(memory_id)s
"""

# The forgotten memories with some words, or with sealed ones, and with all messages of a memory.
_FORGOTTEN_WITH = """
SELECT m.memory_id
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.status = 'forgotten'
  AND (m.content = %(content)s OR m.sealed IS NOT NULL)
  AND NOT EXISTS (
      SELECT FROM memory_sources AS s
      WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
        AND s.memory_id = %(memory_id)s
        AND NOT EXISTS (
            SELECT FROM memory_sources AS o
            WHERE o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
              AND o.memory_id = m.memory_id AND o.conversation_id = s.conversation_id
              AND o.message_id = s.message_id))
ORDER BY m.memory_id
LIMIT %(limit)s
"""

_EARLIER_WORDS = """
SELECT content, sealed
FROM memory_versions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
ORDER BY version DESC
LIMIT %(limit)s
"""


async def of_same_messages(user: UserRows, memory_id: UUID) -> list[UUID]:
    """The current memories that were learnt from a message of a memory."""
    return await user.fetch_values(_OF_SAME_MESSAGES, memory_id=memory_id, limit=_MOST_SHARING)


async def held_by_others(user: UserRows, texts: Sequence[str], without: Sequence[UUID]) -> set[str]:
    """Those of the texts that stand in a current memory other than these.

    If one of those is sealed, the user's key must be at hand.
    """
    if not texts:
        return set()
    clear = await user.fetch_values(
        _HELD_BY_OTHERS,
        texts=Texts(texts),
        statuses=Texts(CURRENT_STATUSES),
        without=Uuids(without),
    )
    sealed = await sealed_memories.find_holding(
        user, texts, statuses=CURRENT_STATUSES, without=without
    )
    return sealed.union(clear)


async def withheld_messages(user: UserRows, memory_id: UUID) -> frozenset[SourceRef]:
    """The messages of a memory of which another memory is forgotten."""
    return frozenset(await user.fetch(SourceRef, _WITHHELD, memory_id=memory_id))


async def forgotten_with(user: UserRows, memory_id: UUID, content: str) -> list[UUID]:
    """The forgotten memories with all messages of a memory, and this content or a sealed one."""
    return await user.fetch_values(
        _FORGOTTEN_WITH, memory_id=memory_id, content=content, limit=_MOST_SHARING
    )


async def earlier_words(user: UserRows, memory_id: UUID, limit: int) -> list[tuple[str, bytes]]:
    """The contents of a memory's earlier versions, the newest first; sealed ones as they are."""
    return list(await user.fetch_rows(_EARLIER_WORDS, memory_id=memory_id, limit=limit))
