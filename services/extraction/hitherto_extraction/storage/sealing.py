"""Seals a user's memories and profile from before encryption was turned on.

The role is hitherto_removal, in a transaction that holds the user's row; for `find_users` it is
hitherto_maintenance. Each function that finds rows takes a bounded number of them, and finds
nothing once everything is sealed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from hitherto_extraction.storage.profiles import LEARNT
from hitherto_extraction.storage.sealed_rows import SENSITIVE_TYPES, WORDS_OF_HISTORY, seal_rows
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.rows import MEMORY, PROFILE, PROFILE_VERSION
from hitherto_shared.models import Scope

# Across users.
_FIND_USERS = """
SELECT tenant_id, user_id
FROM users
WHERE to_seal > 0 AND erased_at IS NULL
  AND (tenant_id, user_id) > (%(tenant_id)s::text, %(user_id)s::text)
ORDER BY tenant_id, user_id
LIMIT %(limit)s
"""

_LEFT = """
SELECT to_seal FROM users WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_DONE = """
UPDATE users SET to_seal = 0
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND to_seal = %(left)s
"""

# Across users: users with sealed memories that lack a vector of a recently activated model.
# Computing those requires the key to their words.
_LEAVE_WITHOUT_VECTORS = """
UPDATE users
SET to_seal = 1
WHERE to_seal = 0 AND erased_at IS NULL AND (tenant_id, user_id) IN (
    SELECT m.tenant_id, m.user_id
    FROM embedding_models AS a
    JOIN memories AS m ON m.sealed IS NOT NULL
    WHERE a.active AND a.activated_at > now() - interval '1 hour'
      AND NOT EXISTS (
          SELECT FROM sealed_embeddings AS e
          WHERE e.tenant_id = m.tenant_id AND e.user_id = m.user_id
            AND e.memory_id = m.memory_id AND e.model = a.model
            AND e.text_version = m.text_version))
"""

_HAS_SEALED = """
SELECT EXISTS (
    SELECT FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL
    UNION ALL SELECT FROM memory_versions
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL
    UNION ALL SELECT FROM profile_versions
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL
    UNION ALL SELECT FROM unusable_replies
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND of_user_key
    UNION ALL SELECT FROM messages
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL
    UNION ALL SELECT FROM conversation_summaries
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL
    UNION ALL SELECT FROM profiles
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL
    UNION ALL SELECT FROM statements
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL)
"""

_CLEAR_MEMORIES = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND sealed IS NULL AND (sensitive OR type = ANY(%(types)s))
ORDER BY memory_id
LIMIT %(limit)s
"""

_COUNT_TERMS = """
SELECT coalesce(sum(lexical_length), 0)
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
"""

_READ_MEMORIES = """
SELECT m.memory_id, m.version, m.content, m.detail, m.tags, m.keywords, m.context, m.metadata,
       new.lexical_no
FROM unnest(%(memory_ids)s::uuid[], %(numbers)s::int[]) AS new (memory_id, lexical_no)
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = new.memory_id
"""

# No new version: the words are the same.
_SEAL_MEMORY = """
UPDATE memories
SET content = '', detail = '', tags = '{}', keywords = '{}', questions = '{}', context = '{}',
    metadata = '{}', sealed = %(sealed)s, sensitive = true, lexical_no = %(lexical_no)s,
    lexical_length = 0, embedding_state = 'sealed'
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
"""

_CLEAR_VERSIONS = """
SELECT v.memory_id, v.version, v.content, v.detail, v.tags, v.keywords, v.context, v.metadata
FROM memory_versions AS v
JOIN memories AS m ON m.tenant_id = v.tenant_id AND m.user_id = v.user_id
     AND m.memory_id = v.memory_id
WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s AND v.sealed IS NULL
  AND m.sealed IS NOT NULL
ORDER BY v.memory_id, v.version
LIMIT %(limit)s
"""

_SEAL_VERSION = """
UPDATE memory_versions
SET content = '', detail = '', tags = '{}', keywords = '{}', context = '{}', metadata = '{}',
    sealed = %(sealed)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND memory_id = %(memory_id)s AND version = %(version)s
"""

_WITH_CLEAR_VECTORS = """
SELECT m.memory_id
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.sealed IS NOT NULL
  AND (EXISTS (SELECT FROM memory_embeddings AS e
               WHERE e.tenant_id = m.tenant_id AND e.user_id = m.user_id
                 AND e.memory_id = m.memory_id)
       OR EXISTS (SELECT FROM memory_source_embeddings AS e
                  WHERE e.tenant_id = m.tenant_id AND e.user_id = m.user_id
                    AND e.memory_id = m.memory_id))
ORDER BY m.memory_id
LIMIT %(limit)s
"""

_WITH_MENTIONS = """
SELECT DISTINCT m.memory_id
FROM memories AS m
JOIN entity_mentions AS em ON em.tenant_id = m.tenant_id AND em.user_id = m.user_id
     AND em.memory_id = m.memory_id
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.sealed IS NOT NULL
LIMIT %(limit)s
"""

# The rules' own reasons quote nothing, but cannot be distinguished from a person's.
_EMPTY_HISTORY = """
UPDATE history AS h
SET before = h.before - %(words)s::text[], after = h.after - %(words)s::text[], reason = ''
WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s AND h.event_id IN (
    SELECT event.event_id
    FROM history AS event
    JOIN memories AS m ON m.tenant_id = event.tenant_id AND m.user_id = event.user_id
         AND m.memory_id = event.memory_id
    WHERE event.tenant_id = %(tenant_id)s AND event.user_id = %(user_id)s AND m.sealed IS NOT NULL
      AND (event.before ?| %(words)s::text[] OR event.after ?| %(words)s::text[]
           OR event.reason <> '')
    LIMIT %(limit)s)
"""

# Locked, so that any transaction that stores a vector of their sources has finished.
_LEARNT_FROM = """
SELECT m.memory_id
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.sealed IS NULL
  AND m.memory_id IN (
      SELECT s.memory_id
      FROM unnest(%(conversations)s::text[], %(message_ids)s::text[])
          AS gone (conversation_id, message_id)
      JOIN memory_sources AS s ON s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
           AND md5(s.conversation_id) = md5(gone.conversation_id)
           AND s.conversation_id = gone.conversation_id AND s.message_id = gone.message_id)
ORDER BY m.memory_id
FOR UPDATE OF m
"""

# Of a summary that was sealed with a role that may not delete.
_DELETE_SUMMARY_VECTORS = """
DELETE FROM summary_embeddings AS e
USING conversation_summaries AS s
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND s.tenant_id = e.tenant_id
  AND s.user_id = e.user_id AND s.conversation_id = e.conversation_id AND s.sealed IS NOT NULL
"""

# Without quotes: they have to go with their messages, for which nobody has the key.
_CLEAR_PROFILE = """
SELECT summary, current_projects, preferences, frequent_intents, facts, metadata, said_at,
       (SELECT coalesce(jsonb_object_agg(s.path, s.source || '{"quote": ""}'), '{}')
        FROM jsonb_each(sources) AS s (path, source)) AS sources,
       version
FROM profiles
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NULL
"""

_SEAL_PROFILE = """
UPDATE profiles
SET summary = '', current_projects = '{}', preferences = '{}', frequent_intents = '{}',
    facts = '{}', metadata = '{}', said_at = '{}', sources = '{}', sealed = %(sealed)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_CLEAR_PROFILE_VERSIONS = """
SELECT version, profile
FROM profile_versions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NULL
ORDER BY version
LIMIT %(limit)s
"""

_SEAL_PROFILE_VERSION = """
UPDATE profile_versions SET profile = '{}', sealed = %(sealed)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND version = %(version)s
"""

# Keys below a field are the user's words, so only the fields remain of what changed. A reason that
# names no field at all was written by this service.
_EMPTY_PROFILE_HISTORY = """
UPDATE history AS h
SET before = NULL, after = NULL,
    reason = coalesce((
        SELECT string_agg(DISTINCT split_part(changed, '.', 1), ', ')
        FROM unnest(string_to_array(h.reason, ', ')) AS changed
        WHERE split_part(changed, '.', 1) = ANY(%(fields)s)), h.reason)
WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s AND h.event_id IN (
    SELECT event_id FROM history
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id IS NULL
      AND (before IS NOT NULL OR after IS NOT NULL)
    LIMIT %(limit)s)
"""

_PROFILE_FIELDS = ("department", "access_level", *LEARNT)


async def leave_without_vectors(connection: Connection) -> None:
    """Let the sweep compute vectors that sealed memories lack since a change of model.

    The role is hitherto_maintenance.
    """
    await connection.execute(_LEAVE_WITHOUT_VECTORS)


async def has_sealed(user: UserRows) -> bool:
    """Whether anything of the user is sealed. Also with the role hitherto_write."""
    return bool(await user.fetch_value(_HAS_SEALED))


async def find_users(connection: Connection, *, after: tuple[str, str], limit: int) -> list[Scope]:
    """The next users with something left to seal, across tenants."""
    return await connection.fetch(
        Scope, _FIND_USERS, {"tenant_id": after[0], "user_id": after[1], "limit": limit}
    )


async def count_left(user: UserRows) -> int:
    """How many times work was left to the sweep since everything was sealed; 0: nothing is left."""
    return int(await user.fetch_value(_LEFT) or 0)


async def settle(user: UserRows, *, left: int) -> bool:
    """Record that nothing is left, unless more was left since `left` was read."""
    return (await user.execute(_DONE, left=left)).rowcount == 1


async def clear_memories(user: UserRows, *, limit: int) -> list[UUID]:
    """Sensitive memories in clear."""
    return await user.fetch_values(_CLEAR_MEMORIES, types=list(SENSITIVE_TYPES), limit=limit)


async def count_terms_of(user: UserRows, memory_ids: Sequence[UUID]) -> int:
    """The total number of terms of memories in the keyword index."""
    return int(await user.fetch_value(_COUNT_TERMS, memory_ids=list(memory_ids)) or 0)


async def seal_memories(user: UserRows, numbers: Mapping[UUID, int]) -> None:
    """Seal memories in place, each under a new number of the keyword index.

    Under the old number its words belong to nothing, and are swept.
    """
    await seal_rows(
        user,
        MEMORY,
        _READ_MEMORIES,
        _SEAL_MEMORY,
        memory_ids=list(numbers),
        numbers=list(numbers.values()),
    )


async def seal_versions(user: UserRows, *, limit: int) -> int:
    """Seal earlier versions of memories that are sealed; how many."""
    return len(await seal_rows(user, MEMORY, _CLEAR_VERSIONS, _SEAL_VERSION, limit=limit))


async def with_clear_vectors(user: UserRows, *, limit: int) -> list[UUID]:
    """Sealed memories with a vector in clear, of any model and wording."""
    return await user.fetch_values(_WITH_CLEAR_VECTORS, limit=limit)


async def with_mentions(user: UserRows, *, limit: int) -> list[UUID]:
    """Sealed memories that mention entities."""
    return await user.fetch_values(_WITH_MENTIONS, limit=limit)


async def empty_history(user: UserRows, *, limit: int) -> int:
    """Remove words and reasons from the history of sealed memories.

    Returns the number of entries.
    """
    cursor = await user.execute(_EMPTY_HISTORY, words=list(WORDS_OF_HISTORY), limit=limit)
    return cursor.rowcount


async def learnt_from(user: UserRows, messages: Sequence[tuple[str, str]]) -> list[UUID]:
    """The memories in clear that were learnt from messages, by conversation and id; locked."""
    return await user.fetch_values(
        _LEARNT_FROM,
        conversations=[conversation_id for conversation_id, _ in messages],
        message_ids=[message_id for _, message_id in messages],
    )


async def delete_summary_vectors(user: UserRows) -> int:
    """Remove the vectors of summaries that are sealed; how many."""
    return (await user.execute(_DELETE_SUMMARY_VECTORS)).rowcount


async def seal_profile(user: UserRows, *, limit: int) -> int:
    """Seal the profile and up to `limit` of its versions, and empty as many entries of its history.

    Returns how many rows were changed; 0: nothing of the profile is in clear.
    """
    cursor = await user.execute(_EMPTY_PROFILE_HISTORY, fields=list(_PROFILE_FIELDS), limit=limit)
    sealed = await seal_rows(user, PROFILE, _CLEAR_PROFILE, _SEAL_PROFILE)
    versions = await seal_rows(
        user, PROFILE_VERSION, _CLEAR_PROFILE_VERSIONS, _SEAL_PROFILE_VERSION, limit=limit
    )
    return len(sealed) + len(versions) + cursor.rowcount
