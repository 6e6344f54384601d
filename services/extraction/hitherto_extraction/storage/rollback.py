"""What one source taught: the jobs that read it, the memories it states, the versions it wrote.

The role is hitherto_removal; the caller holds the user's row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_extraction.storage import sealed_memories
from hitherto_extraction.storage.sealed_rows import opened
from hitherto_shared.database.arrays import fields_of
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.rows import MEMORY
from hitherto_shared.text.normalise import fold

_JOBS_OF_CONVERSATION = """
SELECT job_id
FROM jobs
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND conversation_id = %(conversation_id)s
"""

# Jobs whose model learnt something for the user; NULL: any.
_JOBS_OF_MODEL = """
SELECT job_id, conversation_id, range_from, range_to
FROM jobs
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND result ->> 'model' <> ''
  AND (%(model)s::text IS NULL OR result ->> 'model' = %(model)s)
  AND (%(prompt_version)s::text IS NULL OR result ->> 'prompt_version' = %(prompt_version)s)
  AND (%(since)s::timestamptz IS NULL OR coalesce(finished_at, started_at) >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR coalesce(finished_at, started_at) < %(until)s)
ORDER BY job_id
"""

# Jobs are no part of an export: of an imported user, what they taught names them.
_STATED_IN = """
SELECT DISTINCT job_id
FROM statements
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND job_id IS NOT NULL
  AND md5(conversation_id) = md5(%(conversation_id)s) AND conversation_id = %(conversation_id)s
"""

_TAUGHT_BY = """
SELECT EXISTS (
    SELECT FROM statements
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND job_id = %(job_id)s
    UNION ALL
    SELECT FROM history
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND job_id = %(job_id)s)
"""

_TAUGHT_BETWEEN = """
SELECT job_id
FROM history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND job_id IS NOT NULL
  AND actor IN ('extraction', 'consolidation', 'reconciliation')
GROUP BY job_id
HAVING (%(since)s::timestamptz IS NULL OR max(recorded_at) >= %(since)s)
   AND (%(until)s::timestamptz IS NULL OR max(recorded_at) < %(until)s)
ORDER BY job_id
"""

# Every memory that these messages support, and whether nothing else does.
_STATED = """
WITH source AS (
    SELECT s.memory_id, @is_said_here(s) AS named
    FROM memory_sources AS s
    WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
      AND s.memory_id IN (
          SELECT t.memory_id FROM memory_sources AS t
          WHERE t.tenant_id = %(tenant_id)s AND t.user_id = %(user_id)s
            AND md5(t.conversation_id) = md5(%(conversation_id)s))
)
SELECT memory_id, bool_and(named) FROM source GROUP BY memory_id HAVING bool_or(named)
"""

_OF_DOCUMENT = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND (metadata ->> 'document_id' = %(document_id)s OR context ->> 'document_id' = %(document_id)s)
"""

# Memories of which these jobs wrote versions, and when.
_WRITTEN_BY = """
SELECT memory_id, array_agg(at)
FROM (
    SELECT memory_id, updated_at AS at
    FROM memories
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND job_id = ANY(%(job_ids)s)
    UNION ALL
    SELECT memory_id, known_from
    FROM memory_versions
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND job_id = ANY(%(job_ids)s)
) AS written
GROUP BY memory_id
"""

# Every version, the present one last.
_VERSIONS = """
SELECT v.memory_id, v.version, v.job_id, v.known_from AS at, v.type, v.content, v.detail,
       v.importance, v.confidence, v.origin, v.status, v.tags, v.keywords, v.context, v.metadata,
       v.valid_from, v.valid_to, v.expires_at, v.superseded_by, v.sensitive, v.may_replace, v.doubt,
       coalesce(v.said_at, v.valid_from) AS said_at,
       CASE WHEN v.sealed IS NOT NULL
            THEN @sealed_of_memory(v.memory_id, v.version, 0, v.sealed) END AS sealed
FROM memory_versions AS v
WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
  AND v.memory_id = ANY(%(memory_ids)s)
UNION ALL
SELECT m.memory_id, m.version, m.job_id, m.updated_at, m.type, m.content, m.detail, m.importance,
       m.confidence, m.origin, m.status, m.tags, m.keywords, m.context, m.metadata, m.valid_from,
       m.valid_to, m.expires_at, m.superseded_by, m.sensitive, m.may_replace, m.doubt, m.said_at,
       CASE WHEN m.sealed IS NOT NULL
            THEN @sealed_of_memory(m.memory_id, m.version, m.text_version, m.sealed) END
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.memory_id = ANY(%(memory_ids)s)
ORDER BY memory_id, version
"""

# The vector of the source words reflects the rolled-back source too. The back-fill computes one
# from the remaining words.
_EMBED_ANEW = """
WITH gone AS (
    DELETE FROM memory_source_embeddings
    WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
)
UPDATE memories SET embedding_state = 'pending'
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
  AND embedding_state = 'stored'
"""

# Versions that earlier roll-backs made, and those by which somebody restored or forgot a memory.
_MADE_BY = """
SELECT memory_id, version, action
FROM history
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s)
  AND (action IN ('rolled_back', 'forgotten')
       OR (action = 'restored' AND related_memory_id IS NULL))
"""

# Memories that one of these closed, or that wait for review because they contradict one of these.
_DEPENDING = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id <> ALL(%(memory_ids)s)
  AND ((superseded_by = ANY(%(memory_ids)s)
        AND status IN ('contradicted', 'achieved', 'superseded'))
       OR challenges && %(memory_ids)s)
"""

_MERGED_BY = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND source = 'consolidation'
  AND status IN ('active', 'achieved', 'quarantined') AND memory_id IN (
      SELECT h.memory_id FROM history AS h
      WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
        AND h.action = 'created' AND h.job_id = ANY(%(job_ids)s))
  AND EXISTS (
      SELECT FROM memories AS o
      WHERE o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
        AND o.superseded_by = memories.memory_id AND o.status = 'superseded')
"""

_DROP_SOURCES = """
DELETE FROM memory_sources AS s
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s
  AND s.memory_id = ANY(%(memory_ids)s)
  AND @is_said_here(s)
"""

# Sources of a memory in conversations of which every statement about it or what it stands for was
# taken back. Who restored one of them since vouches for it and for what it stands for.
_DROP_TAKEN_BACK = """
WITH RECURSIVE stated (memory_id, restored_at) AS (
    SELECT m.memory_id, @restored_at(m)
    FROM memories AS m
    WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = %(memory_id)s
    UNION
    SELECT m.memory_id, greatest(stated.restored_at, @restored_at(m))
    FROM stated
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.superseded_by = stated.memory_id AND m.status = 'superseded'
)
DELETE FROM memory_sources AS s
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.memory_id = %(memory_id)s
  AND s.conversation_id IN (
      SELECT t.conversation_id
      FROM stated
      JOIN statements AS t ON t.tenant_id = %(tenant_id)s AND t.user_id = %(user_id)s
           AND t.memory_id = stated.memory_id AND t.conversation_id IS NOT NULL
      GROUP BY t.conversation_id
      HAVING bool_and(t.taken_back_at IS NOT NULL AND t.taken_back_at > stated.restored_at))
"""

# Evidence for the present words, if some of it no longer counts.
_MOVE = """
UPDATE memories AS m SET conversation_id = new.conversation_id
FROM unnest(%(memory_ids)s::uuid[], %(conversation_ids)s::text[])
    AS new (memory_id, conversation_id)
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = new.memory_id
"""

_KEEP = """
UPDATE memories SET said_at = %(said_at)s, challenges = %(challenges)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
"""

_UNMENTION = """
DELETE FROM entity_mentions AS em
USING entities AS e, unnest(%(types)s::text[], %(name_keys)s::text[]) AS named (type, name_key)
WHERE em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s AND em.memory_id = %(memory_id)s
  AND e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND e.entity_id = em.entity_id
  AND e.type = named.type AND e.name_key = named.name_key
RETURNING em.entity_id
"""


@dataclass(frozen=True, slots=True)
class MessageRange:
    """The messages of a conversation, or a range of them (both ends included)."""

    conversation_id: str
    range_from: int | None = None
    range_to: int | None = None


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of a memory or of the profile: the job that wrote it, when, and its fields."""

    version: int
    job_id: UUID | None
    at: datetime
    fields: Mapping[str, Any]


async def jobs_of_model(
    user: UserRows,
    *,
    model: str | None,
    prompt_version: str | None,
    since: datetime | None,
    until: datetime | None,
) -> list[tuple[UUID, MessageRange | None]]:
    """The jobs of a model, a version of the prompt or a time, each with the messages it read."""
    rows = await user.fetch_rows(
        _JOBS_OF_MODEL, model=model, prompt_version=prompt_version, since=since, until=until
    )
    return [
        (job_id, MessageRange(conversation_id, first, last) if conversation_id and first else None)
        for job_id, conversation_id, first, last in rows
    ]


async def taught_by(user: UserRows, job_id: UUID) -> bool:
    """Whether a job, which need not exist any more, changed anything of the user."""
    return bool(await user.fetch_value(_TAUGHT_BY, job_id=job_id))


async def taught_between(
    user: UserRows, since: datetime | None, until: datetime | None
) -> list[UUID]:
    """The jobs that last changed something of the user in this time; they need not exist."""
    return await user.fetch_values(_TAUGHT_BETWEEN, since=since, until=until)


async def jobs_of_conversation(user: UserRows, conversation_id: str) -> list[UUID]:
    """Every job that read the conversation, also one that was not imported with its user."""
    known = await user.fetch_values(_JOBS_OF_CONVERSATION, conversation_id=conversation_id)
    stated = await user.fetch_values(_STATED_IN, conversation_id=conversation_id)
    return list(dict.fromkeys([*known, *stated]))


async def stated_by(user: UserRows, messages: MessageRange) -> dict[UUID, bool]:
    """Memories that these messages support, and whether nothing else does."""
    return dict(await user.fetch_rows(_STATED, **fields_of(messages)))


async def of_document(user: UserRows, document_id: UUID) -> list[UUID]:
    """Memories that name a document in their metadata or context, by `document_id`."""
    name = str(document_id)
    found = await user.fetch_values(_OF_DOCUMENT, document_id=name)
    sealed = await sealed_memories.read_words(user)
    return found + [
        memory_id
        for memory_id, words in sealed.items()
        if name in (words["metadata"].get("document_id"), words["context"].get("document_id"))
    ]


async def written_by(user: UserRows, job_ids: Sequence[UUID]) -> dict[UUID, list[datetime]]:
    """Memories of which these jobs wrote versions, with the times."""
    return dict(await user.fetch_rows(_WRITTEN_BY, job_ids=list(job_ids)))


async def read_versions(
    user: UserRows, memory_ids: Sequence[UUID]
) -> dict[UUID, list[StoredVersion]]:
    """Every version of memories, the first one first, the present one last."""
    versions = await user.execute(_VERSIONS, memory_ids=list(memory_ids))
    found: dict[UUID, list[StoredVersion]] = {}
    for row in versions.dicts():
        memory_id, version, job_id, at, sealed = (
            row.pop(name) for name in ("memory_id", "version", "job_id", "at", "sealed")
        )
        words = {} if sealed is None else opened(user.scope, MEMORY, sealed, memory_id)
        found.setdefault(memory_id, []).append(StoredVersion(version, job_id, at, row | words))
    return found


async def embed_anew(user: UserRows, memory_ids: Sequence[UUID]) -> None:
    """Delete the vectors of memories' source words, which then wait for new ones."""
    await user.execute(_EMBED_ANEW, memory_ids=list(memory_ids))


async def made_by(user: UserRows, memory_ids: Sequence[UUID]) -> dict[str, dict[UUID, set[int]]]:
    """The versions of memories that were rolled_back, restored or forgotten, by these actions."""
    found: dict[str, dict[UUID, set[int]]] = {
        action: {memory_id: set() for memory_id in memory_ids}
        for action in ("rolled_back", "restored", "forgotten")
    }
    for memory_id, version, action in await user.fetch_rows(_MADE_BY, memory_ids=list(memory_ids)):
        found[action][memory_id].add(version)
    return found


async def depending_on(user: UserRows, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Other memories that these closed, or that wait for review because of them."""
    return await user.fetch_values(_DEPENDING, memory_ids=list(memory_ids))


async def merged_by(user: UserRows, job_ids: Sequence[UUID]) -> list[UUID]:
    """Current merged memories that these jobs made."""
    return await user.fetch_values(_MERGED_BY, job_ids=list(job_ids))


async def drop_sources(user: UserRows, memory_ids: Sequence[UUID], messages: MessageRange) -> int:
    """Remove these messages from the sources of memories; returns how often they were sources."""
    cursor = await user.execute(_DROP_SOURCES, **fields_of(messages), memory_ids=list(memory_ids))
    return cursor.rowcount


async def drop_taken_back(user: UserRows, memory_ids: Sequence[UUID]) -> int:
    """Remove what forgotten memories still hide, once they are told again; returns how many.

    What a roll-back took back says the forgotten words too, but states nothing any more.
    """
    dropped = 0
    for memory_id in memory_ids:
        cursor = await user.execute(_DROP_TAKEN_BACK, memory_id=memory_id)
        dropped += cursor.rowcount
    return dropped


async def move(user: UserRows, conversations: Mapping[UUID, str | None]) -> None:
    """Let memories belong to other conversations, or to none."""
    if conversations:
        await user.execute(
            _MOVE,
            memory_ids=list(conversations),
            conversation_ids=list(conversations.values()),
        )


async def keep(
    user: UserRows, memory_id: UUID, *, said_at: datetime, challenges: Sequence[UUID]
) -> None:
    """Record when a memory that stays was last said, and what it challenges, by what remains."""
    await user.execute(_KEEP, memory_id=memory_id, said_at=said_at, challenges=list(challenges))


async def unmention(
    user: UserRows, memory_id: UUID, names: Sequence[tuple[str, str]]
) -> list[UUID]:
    """Remove mentions of entities from a memory, each by name and type; returns the entities."""
    return await user.fetch_values(
        _UNMENTION,
        memory_id=memory_id,
        types=[kind for _, kind in names],
        name_keys=[fold(name) for name, _ in names],
    )
