"""Forgets all memories of a user, in bulk statements, after the unread messages are passed.

The caller holds the user's row. Only working memory and records of upkeep are deleted; those
statements need the role hitherto_removal, the others hitherto_write.
"""

from __future__ import annotations

from datetime import datetime

from hitherto_extraction.storage import mentions
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.identifiers import uuid7

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

_NEXT = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND status <> 'forgotten'
  AND created_at <= %(before)s
ORDER BY memory_id
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
WITH replaced AS MATERIALIZED (
    SELECT m.*, named.event_id
    FROM unnest(%(memory_ids)s::uuid[], %(event_ids)s::uuid[]) AS named (memory_id, event_id)
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = named.memory_id
), kept AS @kept_versions(replaced), forgotten AS (
    UPDATE memories AS m
    SET version = m.version + 1, status = 'forgotten', superseded_by = NULL, job_id = NULL,
        updated_at = greatest(m.updated_at, %(at)s)
    FROM replaced AS g
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = g.memory_id
), mirrored AS (
    UPDATE memory_embeddings AS e SET status = 'forgotten'
    FROM replaced AS g
    WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.memory_id = g.memory_id
), recorded AS (
    INSERT INTO history (tenant_id, user_id, event_id, recorded_at, subject, memory_id, action,
                         version, actor, reason)
    SELECT tenant_id, user_id, event_id, %(at)s, 'memory', memory_id, 'forgotten', version + 1,
           %(actor)s, %(reason)s
    FROM replaced
)
INSERT INTO memory_changes (tenant_id, user_id, memory_id, action, version, old_status, new_status,
                            recorded_at)
SELECT tenant_id, user_id, memory_id, 'forgotten', version + 1, status, 'forgotten', %(at)s
FROM replaced
"""

# The records of consolidation contain tags, which are words of the user.
_LEFT_OVER = """
DELETE FROM consolidation_groups WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_WAYS = """
DELETE FROM preferences WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_WORKING_MEMORY = (
    "DELETE FROM session_contexts WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s",
    "DELETE FROM pending_actions WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s",
    "DELETE FROM recent_items WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s",
)

# Also those that only saved memories name, whose messages were never sent.
_CONVERSATIONS = """
SELECT conversation_id
FROM (
    SELECT conversation_id FROM conversations
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
    UNION
    SELECT conversation_id FROM statements
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND conversation_id IS NOT NULL
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
    user: UserRows, *, before: datetime, at: datetime, actor: str, reason: str, limit: int
) -> int:
    """Make up to `limit` memories created before `before` FORGOTTEN; returns their number.

    Each gets a next version and a history entry, as if it had been forgotten individually.
    """
    memory_ids = await user.fetch_values(_NEXT, before=before, limit=limit)
    if memory_ids:
        values = {
            "memory_ids": memory_ids,
            "event_ids": [uuid7() for _ in memory_ids],
            "at": at,
            "actor": actor,
            "reason": reason,
        }
        await user.execute(_UNNAME, **values)
        await user.execute(_FORGET, **values)
        await mentions.recount(user, memory_ids)
    return len(memory_ids)


async def find_conversations(user: UserRows) -> list[str]:
    """The ids of all conversations of the user."""
    return await user.fetch_values(_CONVERSATIONS)


async def drop_groups(user: UserRows) -> None:
    """Delete the records of consolidation, so that restored memories are consolidated again."""
    await user.execute(_LEFT_OVER)


async def drop_preferences(user: UserRows) -> int:
    """Delete the preferences inferred from behaviour; returns their number."""
    return (await user.execute(_WAYS)).rowcount


async def drop_working_memory(user: UserRows) -> None:
    """Delete all sessions, pending actions and recent items."""
    for statement in _WORKING_MEMORY:
        await user.execute(statement)
