"""Deletes memories and messages of one user with all of their contents.

The role is hitherto_removal; the caller holds the user's row. What remains of a memory is its
history without contents: who did what and when, and that it expired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from psycopg import sql

from hitherto_extraction.storage import document_mentions, ledger, reindexing
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_extraction.storage.retention import HeldMessage
from hitherto_shared.database.user_rows import UserRows

# A memory whose access count is being updated at this moment is locked, and so is skipped.
_LOCK_MEMORIES = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
ORDER BY memory_id
FOR UPDATE SKIP LOCKED
"""

# Entities that nothing mentions any more are names known only from these memories.
_FORGET_MENTIONS = """
WITH gone AS (
    DELETE FROM entity_mentions AS em
    USING memories AS m
    WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
      AND em.memory_id = ANY(%(memory_ids)s)
      AND m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = em.memory_id
    RETURNING em.entity_id, m.status <> 'forgotten' AS counted
), lost AS (
    SELECT entity_id, count(*) FILTER (WHERE counted) AS times FROM gone GROUP BY entity_id
)
UPDATE entities AS e
SET mention_count = greatest(e.mention_count - lost.times, 0)
FROM lost
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.entity_id = lost.entity_id
RETURNING e.entity_id
"""

# From any table with rows of memories.
_DELETE_OF_MEMORIES = """
DELETE FROM {table}
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
"""

# From any table. A statement of its own: for both, the plan that Postgres keeps would read all rows
# for some.
_DELETE_ALL = """
DELETE FROM {table}
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

# The keyword index counts texts and terms in the user's row.
_DELETE_MEMORIES = """
WITH gone AS (
    DELETE FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
    RETURNING lexical_length
)
UPDATE users
SET lexical_documents = greatest(lexical_documents - (SELECT count(*) FROM gone), 0),
    lexical_terms = greatest(lexical_terms - (SELECT coalesce(sum(lexical_length), 0) FROM gone), 0)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

# What is in doubt because of these stays so, without the words that say why.
_DROP_REASONS = """
WITH present AS (
    UPDATE memories SET doubt = doubt || '{"reason": ""}'
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND doubt ->> 'because' = ANY(%(causes)s)
)
UPDATE memory_versions SET doubt = doubt || '{"reason": ""}'
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND doubt ->> 'because' = ANY(%(causes)s)
"""

# A tag is a word of the user too.
_DROP_UNUSED_TAGS = """
DELETE FROM consolidation_groups AS g
WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
  AND NOT EXISTS (
      SELECT FROM memories AS m
      WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND g.tag = ANY(m.tags))
"""

_EMPTY_HISTORY = """
UPDATE history SET before = NULL, after = NULL, reason = ''
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
"""

_STATES = """
SELECT memory_id, version, status
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
ORDER BY memory_id
"""

# Transactions that accept or hand out messages of these conversations wait until they are gone.
_LOCK_CONVERSATIONS = """
SELECT conversation_id
FROM conversations
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = ANY(%(conversation_ids)s)
ORDER BY conversation_id
FOR UPDATE
"""

_DELETE_MESSAGES = """
DELETE FROM messages AS g
USING unnest(%(conversations)s::text[], %(message_nos)s::int[])
    AS gone (conversation_id, message_no)
WHERE g.tenant_id = %(tenant_id)s AND g.user_id = %(user_id)s
  AND g.conversation_id = gone.conversation_id AND g.message_no = gone.message_no
"""

# The words of a message go with it, wherever they were quoted.
_DROP_QUOTES = """
UPDATE memory_sources AS s SET quote = NULL
FROM unnest(%(conversations)s::text[], %(message_ids)s::text[])
    AS gone (conversation_id, message_id)
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.quote IS NOT NULL
  AND md5(s.conversation_id) = md5(gone.conversation_id)
  AND s.conversation_id = gone.conversation_id AND s.message_id = gone.message_id
"""

_DROP_PROFILE_QUOTES = """
UPDATE profiles AS p
SET sources = (
    SELECT jsonb_object_agg(s.path, CASE WHEN gone.message_id IS NULL THEN s.source
                                         ELSE s.source || '{"quote": ""}' END)
    FROM jsonb_each(p.sources) AS s (path, source)
    LEFT JOIN unnest(%(conversations)s::text[], %(message_ids)s::text[])
        AS gone (conversation_id, message_id)
        ON gone.conversation_id = s.source ->> 'conversation_id'
       AND gone.message_id = s.source ->> 'message_id')
WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s AND p.sources <> '{}'
"""

_LEARNT_FROM = """
SELECT DISTINCT memory_id FROM @learnt_from_messages AS learnt
"""

# A model's reasons may quote what it read; the rules' own reasons do not.
_DROP_EXCERPTS = """
UPDATE history SET reason = action
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND job_id = ANY(%(job_ids)s)
  AND subject = 'memory' AND action IN ('contradicted', 'achieved', 'superseded')
  AND reason NOT IN ('', action)
"""

# As above, for the same reason.
_DROP_ALL_EXCERPTS = """
UPDATE history SET reason = action
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND job_id IS NOT NULL
  AND subject = 'memory' AND action IN ('contradicted', 'achieved', 'superseded')
  AND reason NOT IN ('', action)
"""

_DROP_REPLIES = """
DELETE FROM unusable_replies
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND job_id = ANY(%(job_ids)s)
"""

_DROP_EDITS = """
DELETE FROM feedback AS f
USING unnest(%(conversations)s::text[], %(message_ids)s::text[])
    AS gone (conversation_id, message_id)
WHERE f.tenant_id = %(tenant_id)s AND f.user_id = %(user_id)s AND f.original IS NOT NULL
  AND f.conversation_id = gone.conversation_id AND f.message_id = gone.message_id
"""


async def lock_memories(user: UserRows, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Lock memories, also against access counting; returns those that could be locked."""
    return await user.fetch_values(_LOCK_MEMORIES, memory_ids=list(memory_ids))


async def remove_memories(
    user: UserRows, memory_ids: Sequence[UUID], *, job_id: UUID
) -> Mapping[str, int]:
    """Delete memories with all of their contents; returns the number of rows by table."""
    values = {"memory_ids": list(memory_ids)}
    events = [
        ChangeEvent("expired", version, "not used for longer than it is kept", memory_id, status)
        for memory_id, version, status in await user.fetch_rows(_STATES, **values)
    ]
    await ledger.record(user, job_id, events, actor="retention")
    await forget_mentions(user, memory_ids)
    vectors = await delete_vectors(user, memory_ids)
    vectors += await _delete(user, "sealed_embeddings", memory_ids)
    versions = await _delete(user, "memory_versions", memory_ids)
    await _delete(user, "memory_access", memory_ids)
    await _delete(user, "memory_sources", memory_ids)
    await _delete(user, "statements", memory_ids)
    await user.execute(_DELETE_MEMORIES, **values)
    await user.execute(_EMPTY_HISTORY, **values)
    await user.execute(_DROP_REASONS, causes=[str(each) for each in memory_ids])
    await drop_unused_tags(user)
    await reindexing.sweep_postings(user)
    return {"memories": len(memory_ids), "versions": versions, "vectors": vectors}


async def forget_mentions(user: UserRows, memory_ids: Sequence[UUID]) -> int:
    """Remove the mentions of memories and what only they mention; returns how many entities."""
    entities = await user.fetch_values(_FORGET_MENTIONS, memory_ids=list(memory_ids))
    await document_mentions.drop_unmentioned(user, entities)
    return len(entities)


async def delete_vectors(user: UserRows, memory_ids: Sequence[UUID]) -> int:
    """Delete the vectors in clear of memories and of their sources; returns their number."""
    vectors = await _delete(user, "memory_embeddings", memory_ids)
    return vectors + await delete_source_vectors(user, memory_ids)


async def delete_source_vectors(user: UserRows, memory_ids: Sequence[UUID] | None = None) -> int:
    """Delete the vectors of memories' source words, of these or of all; returns their number."""
    if memory_ids is None:
        return await delete_all(user, "memory_source_embeddings")
    return await _delete(user, "memory_source_embeddings", memory_ids)


async def delete_all(user: UserRows, table: str) -> int:
    """Delete all rows of the user from a table; returns their number."""
    statement = sql.SQL(_DELETE_ALL).format(table=sql.Identifier(table))
    return (await user.execute(statement)).rowcount


async def _delete(user: UserRows, table: str, memory_ids: Sequence[UUID]) -> int:
    statement = sql.SQL(_DELETE_OF_MEMORIES).format(table=sql.Identifier(table))
    return (await user.execute(statement, memory_ids=list(memory_ids))).rowcount


async def drop_unused_tags(user: UserRows) -> None:
    """Delete the records of consolidation for tags that no memory has any more."""
    await user.execute(_DROP_UNUSED_TAGS)


async def lock_conversations(user: UserRows, conversation_ids: Sequence[str]) -> None:
    """Lock these conversations against accepting and handing out messages."""
    await user.execute(_LOCK_CONVERSATIONS, conversation_ids=list(conversation_ids))


async def remove_messages(
    user: UserRows, messages: Sequence[HeldMessage], readers: Sequence[UUID]
) -> list[UUID]:
    """Delete messages and all other copies of their words; returns the memories learnt from them.

    The caller holds their conversations, has removed the messages from the jobs that read them
    (`readers`) and from the indexes, and afterwards reindexes those memories.
    """
    values = {
        "conversations": [message.conversation_id for message in messages],
        "message_nos": [message.message_no for message in messages],
        "message_ids": [message.message_id for message in messages],
        "job_ids": list(readers),
    }
    learnt = sorted(await user.fetch_values(_LEARNT_FROM, **values))
    await user.execute(_DELETE_MESSAGES, **values)
    await user.execute(_DROP_QUOTES, **values)
    await user.execute(_DROP_PROFILE_QUOTES, **values)
    await delete_source_vectors(user, learnt)
    await drop_excerpts(user, readers)
    await user.execute(_DROP_REPLIES, **values)
    await user.execute(_DROP_EDITS, **values)
    return learnt


async def drop_excerpts(user: UserRows, job_ids: Sequence[UUID] | None = None) -> None:
    """Remove possible quotes of messages from the history of memories; None: of all jobs."""
    if job_ids is None:
        await user.execute(_DROP_ALL_EXCERPTS)
    else:
        await user.execute(_DROP_EXCERPTS, job_ids=list(job_ids))
