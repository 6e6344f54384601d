"""What one source taught: the jobs that read it, the memories it states, the versions it wrote.

On the role hitherto_removal; the caller holds the user's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hitherto_extraction.storage import profiles, sealed_memories
from hitherto_extraction.storage.sealed_words import open_words
from hitherto_shared.database.pool import Connection
from hitherto_shared.encryption.sealed import UserKey
from hitherto_shared.models import Scope

_JOBS_OF_CONVERSATION = """
SELECT job_id
FROM jobs
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""

_CONVERSATION_EXISTS = """
SELECT EXISTS (
    SELECT FROM conversations
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
      AND conversation_id = %(conversation_id)s)
"""

_DOCUMENT_EXISTS = """
SELECT EXISTS (
    SELECT FROM documents
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s)
"""

# Every memory the conversation stands behind, and whether nothing else does. A job owns a range of
# its conversation's messages; without one (NULL) the whole conversation is meant.
_STATED = """
WITH source AS (
    SELECT s.memory_id,
           (md5(s.conversation_id) = md5(%(conversation_id)s)
            AND s.conversation_id = %(conversation_id)s
            AND (%(range_from)s::int IS NULL OR EXISTS (
                SELECT FROM messages AS g
                WHERE g.tenant_id = s.tenant_id AND g.user_id = s.user_id
                  AND g.conversation_id = s.conversation_id
                  AND md5(g.message_id) = md5(s.message_id) AND g.message_id = s.message_id
                  AND g.message_no BETWEEN %(range_from)s AND %(range_to)s))) AS named
    FROM memory_sources AS s
    WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
      AND s.memory_id IN (
          SELECT t.memory_id FROM memory_sources AS t
          WHERE t.tenant_id = %(tenant_id)s AND t.user_id = %(user_id)s
            AND md5(t.conversation_id) = md5(%(conversation_id)s))
)
SELECT memory_id, bool_and(named) FROM source GROUP BY memory_id HAVING bool_or(named)
"""

# Memories that came from these jobs and name no message at all.
_SOURCELESS = """
SELECT DISTINCT h.memory_id
FROM history AS h
WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s AND h.subject = 'memory'
  AND h.action IN ('created', 'quarantined') AND h.job_id = ANY(%(job_ids)s)
  AND NOT EXISTS (
      SELECT FROM memory_sources AS s
      WHERE s.tenant_id = h.tenant_id AND s.user_id = h.user_id AND s.memory_id = h.memory_id)
"""

_OF_DOCUMENT = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND (metadata ->> 'document_id' = %(document_id)s OR context ->> 'document_id' = %(document_id)s)
"""

# Memories whose present version one of these jobs wrote, with the newest version that none did.
_REWRITTEN = """
SELECT m.memory_id, v.version
FROM memories AS m
LEFT JOIN LATERAL (
    SELECT version FROM memory_versions AS v
    WHERE v.tenant_id = m.tenant_id AND v.user_id = m.user_id AND v.memory_id = m.memory_id
      AND (v.job_id IS NULL OR v.job_id <> ALL(%(job_ids)s))
    ORDER BY version DESC
    LIMIT 1
) AS v ON true
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.job_id = ANY(%(job_ids)s)
ORDER BY m.memory_id
"""

_VERSION = """
SELECT type, content, detail, importance, confidence, origin, status, tags, keywords, context,
       metadata, valid_from, valid_to, expires_at, superseded_by, sensitive, said_at, sealed
FROM memory_versions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
  AND version = %(version)s
"""

# Merged memories that are current and have one of these among what they were merged from.
_MERGED_FROM = """
SELECT DISTINCT k.memory_id
FROM memories AS k
JOIN memories AS m ON m.tenant_id = k.tenant_id AND m.user_id = k.user_id
     AND m.superseded_by = k.memory_id AND m.status = 'superseded'
WHERE k.tenant_id = %(tenant_id)s AND k.user_id = %(user_id)s
  AND k.source = 'consolidation' AND k.status IN ('active', 'achieved', 'quarantined')
  AND m.memory_id = ANY(%(memory_ids)s)
"""

_MERGED_BY = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND source = 'consolidation'
  AND status IN ('active', 'achieved', 'quarantined') AND memory_id IN (
      SELECT h.memory_id FROM history AS h
      WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
        AND h.action = 'created' AND h.job_id = ANY(%(job_ids)s))
"""

_DROP_SOURCES = """
DELETE FROM memory_sources AS s
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND s.memory_id = ANY(%(memory_ids)s)
  AND md5(s.conversation_id) = md5(%(conversation_id)s)
  AND s.conversation_id = %(conversation_id)s
  AND (%(range_from)s::int IS NULL OR EXISTS (
      SELECT FROM messages AS g
      WHERE g.tenant_id = s.tenant_id AND g.user_id = s.user_id
        AND g.conversation_id = s.conversation_id
        AND md5(g.message_id) = md5(s.message_id) AND g.message_id = s.message_id
        AND g.message_no BETWEEN %(range_from)s AND %(range_to)s))
"""

_NO_LONGER_SUPERSEDES = """
UPDATE memories SET supersedes = array_remove(supersedes, %(memory_id)s)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(successor)s
"""

# Changes of the profile by these jobs, newest first.
_PROFILE_EVENTS = """
SELECT version, before, after
FROM history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND subject = 'profile'
  AND job_id = ANY(%(job_ids)s)
ORDER BY recorded_at DESC, event_id DESC
"""


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a conversation, or a range of them (both ends included)."""

    conversation_id: str
    range_from: int | None = None
    range_to: int | None = None


async def jobs_of_conversation(
    connection: Connection, scope: Scope, conversation_id: str
) -> list[UUID]:
    """Every job that read the conversation."""
    cursor = await connection.execute(
        _JOBS_OF_CONVERSATION, {**_of(scope), "conversation_id": conversation_id}
    )
    return [row[0] for row in await cursor.fetchall()]


async def conversation_exists(connection: Connection, scope: Scope, conversation_id: str) -> bool:
    """Whether the user has this conversation."""
    cursor = await connection.execute(
        _CONVERSATION_EXISTS, {**_of(scope), "conversation_id": conversation_id}
    )
    row = await cursor.fetchone()
    return bool(row and row[0])


async def document_exists(connection: Connection, scope: Scope, document_id: UUID) -> bool:
    """Whether the user has this document."""
    cursor = await connection.execute(_DOCUMENT_EXISTS, {**_of(scope), "document_id": document_id})
    row = await cursor.fetchone()
    return bool(row and row[0])


async def stated_by(connection: Connection, scope: Scope, messages: Messages) -> dict[UUID, bool]:
    """Memories these messages stand behind, and whether nothing else does."""
    cursor = await connection.execute(_STATED, {**_of(scope), **_range(messages)})
    return {row[0]: bool(row[1]) for row in await cursor.fetchall()}


async def sourceless(connection: Connection, scope: Scope, job_ids: Sequence[UUID]) -> list[UUID]:
    """Memories that jobs made without naming a message."""
    cursor = await connection.execute(_SOURCELESS, {**_of(scope), "job_ids": list(job_ids)})
    return [row[0] for row in await cursor.fetchall()]


async def of_document(
    connection: Connection, scope: Scope, document_id: UUID, key: UserKey | None = None
) -> list[UUID]:
    """Memories that name a document in their metadata or context, by `document_id`.

    Raises:
        KeyNeeded: The user has sealed memories, and there is no `key`.
    """
    name = str(document_id)
    cursor = await connection.execute(_OF_DOCUMENT, {**_of(scope), "document_id": name})
    found = [row[0] for row in await cursor.fetchall()]
    sealed = await sealed_memories.read_words(connection, scope, key)
    return found + [
        memory_id
        for memory_id, words in sealed.items()
        if name in (words["metadata"].get("document_id"), words["context"].get("document_id"))
    ]


async def rewritten_by(
    connection: Connection, scope: Scope, job_ids: Sequence[UUID]
) -> dict[UUID, int | None]:
    """Memories as one of these jobs left them, and their newest version by anybody else."""
    cursor = await connection.execute(_REWRITTEN, {**_of(scope), "job_ids": list(job_ids)})
    return {row[0]: row[1] for row in await cursor.fetchall()}


async def read_version(
    connection: Connection,
    scope: Scope,
    memory_id: UUID,
    version: int,
    key: UserKey | None = None,
) -> Mapping[str, Any]:
    """An earlier version of a memory, by column; `sealed` tells whether it was stored sealed.

    Raises:
        KeyNeeded: It was, and there is no `key`.
    """
    cursor = await connection.execute(
        _VERSION, {**_of(scope), "memory_id": memory_id, "version": version}
    )
    row = await cursor.fetchone()
    assert row is not None
    assert cursor.description is not None
    found = {column.name: value for column, value in zip(cursor.description, row, strict=True)}
    sealed = found["sealed"]
    words = {} if sealed is None else open_words(key, memory_id, sealed)
    return {**found, **words, "sealed": sealed is not None}


async def merged_from(
    connection: Connection, scope: Scope, memory_ids: Sequence[UUID]
) -> list[UUID]:
    """Current merged memories that one of these went into."""
    cursor = await connection.execute(_MERGED_FROM, {**_of(scope), "memory_ids": list(memory_ids)})
    return [row[0] for row in await cursor.fetchall()]


async def merged_by(connection: Connection, scope: Scope, job_ids: Sequence[UUID]) -> list[UUID]:
    """Current merged memories that these jobs made."""
    cursor = await connection.execute(_MERGED_BY, {**_of(scope), "job_ids": list(job_ids)})
    return [row[0] for row in await cursor.fetchall()]


async def drop_sources(
    connection: Connection, scope: Scope, memory_ids: Sequence[UUID], messages: Messages
) -> int:
    """Let memories no longer name these messages; how many times they did."""
    cursor = await connection.execute(
        _DROP_SOURCES, {**_of(scope), **_range(messages), "memory_ids": list(memory_ids)}
    )
    return cursor.rowcount


async def no_longer_supersedes(
    connection: Connection, scope: Scope, memory_id: UUID, successor: UUID
) -> None:
    """Take a memory out of what its former successor names."""
    await connection.execute(
        _NO_LONGER_SUPERSEDES, {**_of(scope), "memory_id": memory_id, "successor": successor}
    )


async def profile_events(
    connection: Connection, scope: Scope, job_ids: Sequence[UUID], key: UserKey | None = None
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """What these jobs changed in the profile, newest first: before and after.

    Raises:
        KeyNeeded: The versions are sealed, and there is no `key`.
    """
    cursor = await connection.execute(_PROFILE_EVENTS, {**_of(scope), "job_ids": list(job_ids)})
    found: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
    for version, before, after in await cursor.fetchall():
        if after is None:
            # Of a user who encrypts history keeps no contents.
            before = await profiles.read_version(connection, scope, version - 1, key)  # noqa: PLW2901
            after = await profiles.read_version(connection, scope, version, key)  # noqa: PLW2901
        found.append((before or {}, after))
    return found


def _range(messages: Messages) -> dict[str, Any]:
    return {
        "conversation_id": messages.conversation_id,
        "range_from": messages.range_from,
        "range_to": messages.range_to,
    }


def _of(scope: Scope) -> dict[str, Any]:
    return {"tenant_id": scope.tenant_id, "user_id": scope.user_id}
