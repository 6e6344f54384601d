"""Forgets all memories of a user, in bulk statements, after the unread messages are passed.

The caller holds the user's row. Only working memory and records of upkeep are deleted; those
statements need the role hitherto_removal, the others hitherto_write.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from hitherto_extraction.storage import ledger, mentions, removal
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_shared.database.user_rows import UserRows

# Locked in the same order as by callers that accept a batch for several conversations.
_BACKLOG = """
SELECT conversation_id, watermark, last_message_no
FROM conversations
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND watermark < last_message_no
ORDER BY conversation_id COLLATE "C"
FOR UPDATE
"""

_PASS_BACKLOG = """
UPDATE conversations SET watermark = last_message_no
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND watermark < last_message_no
"""

# Also what a conversation or a roll-back has forgotten: if that is taken back, it stays so. Not
# what somebody has said or restored since the call began, which may have been repeated.
_NEXT = """
SELECT m.memory_id, m.version, m.status
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.created_at <= %(before)s
  AND (%(after)s::uuid IS NULL OR m.memory_id > %(after)s)
  AND (m.status <> 'forgotten' OR NOT @is_forgotten_by_hand(m))
  AND NOT EXISTS (
      SELECT FROM statements AS s
      WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.memory_id = m.memory_id
        AND s.action IN ('said', 'updated') AND s.recorded_at > %(before)s
        AND s.taken_back_at IS NULL)
  AND @restored_at(m) <= %(before)s
ORDER BY m.memory_id
LIMIT %(limit)s
"""

# The replacement of a forgotten memory no longer names it.
_UNNAME = """
UPDATE memories AS s
SET supersedes = ARRAY(SELECT named.id FROM unnest(s.supersedes) WITH ORDINALITY
                           AS named (id, place)
                       WHERE named.id <> ALL(%(memory_ids)s) ORDER BY named.place)
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND s.memory_id IN (
      SELECT m.superseded_by FROM memories AS m
      WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
        AND m.memory_id = ANY(%(memory_ids)s))
"""

_FORGET = """
WITH kept AS @kept_versions((
    SELECT * FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND memory_id = ANY(%(memory_ids)s::uuid[]))
), mirrored AS (
    UPDATE memory_embeddings SET status = 'forgotten'
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND memory_id = ANY(%(memory_ids)s::uuid[])
)
UPDATE memories
SET version = version + 1, status = 'forgotten', superseded_by = NULL, job_id = NULL,
    updated_at = greatest(updated_at, %(at)s)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND memory_id = ANY(%(memory_ids)s::uuid[])
"""

# Also those that only saved memories name, whose messages were never sent.
_CONVERSATIONS = """
SELECT conversation_id
FROM (
    SELECT conversation_id FROM conversations
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND created_at <= %(before)s
    UNION
    SELECT s.conversation_id FROM statements AS s
    WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.recorded_at <= %(before)s
      AND s.conversation_id IS NOT NULL AND NOT EXISTS (
          SELECT FROM conversations AS c
          WHERE c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
            AND c.conversation_id = s.conversation_id AND c.created_at > %(before)s)
) AS named
ORDER BY conversation_id COLLATE "C"
"""


async def lock_backlog(user: UserRows) -> list[tuple[str, int, int]]:
    """Conversations with messages that were never extracted: id, last learnt, last accepted.

    They stay locked, in one order.
    """
    return list(await user.fetch_rows(_BACKLOG))


async def pass_backlog(user: UserRows) -> None:
    """Count every accepted message as learnt from."""
    await user.execute(_PASS_BACKLOG)


async def forget_some(
    user: UserRows,
    *,
    before: datetime,
    after: UUID | None,
    at: datetime,
    actor: str,
    reason: str,
    limit: int,
) -> list[tuple[UUID, str]]:
    """Make up to `limit` memories FORGOTTEN, in the order of their ids; returns earlier statuses.

    They were created before `before`, and follow `after`. Each gets a version and a history entry.
    """
    found = await user.fetch_rows(_NEXT, before=before, after=after, limit=limit)
    if found:
        memory_ids = [memory_id for memory_id, _, _ in found]
        await user.execute(_UNNAME, memory_ids=memory_ids)
        await user.execute(_FORGET, memory_ids=memory_ids, at=at)
        events = [
            ChangeEvent("forgotten", version + 1, reason, memory_id, status, "forgotten")
            for memory_id, version, status in found
        ]
        await ledger.record(user, None, events, actor=actor)
        await mentions.recount(user, memory_ids)
    return [(memory_id, status) for memory_id, _, status in found]


async def find_conversations(user: UserRows, before: datetime) -> list[str]:
    """The ids of all conversations that the user had at a time."""
    return await user.fetch_values(_CONVERSATIONS, before=before)


async def drop_groups(user: UserRows) -> None:
    """Delete the records of consolidation, so that restored memories are consolidated again.

    They contain tags, which are words of the user.
    """
    await removal.delete_all(user, "consolidation_groups")


async def drop_preferences(user: UserRows) -> int:
    """Delete the preferences inferred from behaviour; returns their number."""
    return await removal.delete_all(user, "preferences")


async def drop_working_memory(user: UserRows) -> None:
    """Delete all sessions, pending actions and recent items."""
    for table in ("session_contexts", "pending_actions", "recent_items"):
        await removal.delete_all(user, table)
