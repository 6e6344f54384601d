"""Writes memories: new rows, evidence, links, sources and vectors; see `editing` for versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from uuid import UUID

from pgvector import HalfVector

from hitherto_extraction.storage.editing import EditableMemory
from hitherto_extraction.storage.sealed_rows import key_of_memory, stored_memory
from hitherto_shared.database.arrays import Texts, Uuids, fields_of, records
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import SourceRef

_INSERT = """
INSERT INTO memories (tenant_id, user_id, memory_id, type, content, detail, importance, confidence,
    source, origin, status, tags, keywords, context, conversation_id, valid_from, valid_to, said_at,
    superseded_by, supersedes, challenges, created_at, updated_at, job_id, lexical_no,
    lexical_length, embedding_state, metadata, expires_at, sensitive, questions, may_replace,
    sealed)
SELECT u.tenant_id, u.user_id, new.memory_id, new.type, new.content, new.detail, new.importance,
    new.confidence, new.source, new.origin, new.status, new.tags, new.keywords, new.context,
    new.conversation_id, new.valid_from, new.valid_to, new.said_at, new.superseded_by,
    new.supersedes, new.challenges, new.created_at, new.updated_at, new.job_id, new.lexical_no,
    new.lexical_length, new.embedding_state, new.metadata, new.expires_at, new.sensitive,
    new.questions, new.may_replace, new.sealed
FROM @its_user AS u
CROSS JOIN json_populate_recordset(NULL::memories, %(rows)s) AS new
"""

# More evidence for the same words: no new version.
_CONFIRM = """
UPDATE memories
SET said_at = greatest(said_at, %(said_at)s),
    last_confirmed_at = greatest(last_confirmed_at, %(said_at)s)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
"""

# When these memories were last said again, as far as it counts: by what states them besides the
# first statement (a merged one has none), or by what was joined to them. An update that made a
# version says something new.
_CONFIRM_ANEW = """
UPDATE memories AS m SET last_confirmed_at = greatest(
    (SELECT CASE WHEN bool_or((s.place > 1 OR m.source = 'consolidation')
                              AND NOT (s.action = 'updated' AND s.made_version))
                 THEN max(s.said_at) END
     FROM (
         SELECT t.said_at, t.action, t.made_version,
                row_number() OVER (ORDER BY t.recorded_at, t.statement_id) AS place
         FROM statements AS t
         WHERE t.tenant_id = %(tenant_id)s AND t.user_id = %(user_id)s
           AND t.memory_id = m.memory_id AND t.action IN ('said', 'updated')
           AND t.taken_back_at IS NULL
           AND (t.origin IN ('user', 'operator') OR m.origin NOT IN ('user', 'operator'))) AS s),
    (SELECT max(greatest(m.said_at, o.said_at, o.last_confirmed_at))
     FROM memories AS o
     WHERE o.tenant_id = %(tenant_id)s AND o.user_id = %(user_id)s
       AND o.superseded_by = m.memory_id AND o.status = 'superseded'
       AND (o.origin IN ('user', 'operator') OR m.origin NOT IN ('user', 'operator'))
       AND EXISTS (
           SELECT FROM history AS h
           WHERE h.tenant_id = %(tenant_id)s AND h.user_id = %(user_id)s
             AND h.memory_id = o.memory_id AND h.related_memory_id = m.memory_id
             AND h.actor = 'reconciliation' AND h.action = 'superseded')))
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.memory_id = ANY(%(memory_ids)s)
"""

_ADD_SUPERSEDES = """
UPDATE memories SET supersedes = supersedes || %(memory_id)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(by)s
  AND NOT %(memory_id)s = ANY(supersedes)
"""

_REMOVE_SUPERSEDES = """
UPDATE memories SET supersedes = array_remove(supersedes, %(memory_id)s)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(by)s
"""

_ADD_CHALLENGE = """
UPDATE memories SET challenges = challenges || %(challenged)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
  AND NOT %(challenged)s = ANY(challenges)
"""

_ADD_MAY_REPLACE = """
UPDATE memories SET may_replace = may_replace || %(older)s
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id = %(memory_id)s
  AND NOT %(older)s = ANY(may_replace)
"""

# The words of a message are the user's: none where messages are sealed, or the memory is.
_ADD_SOURCE = """
INSERT INTO memory_sources (tenant_id, user_id, memory_id, conversation_id, message_id, quote)
SELECT u.tenant_id, u.user_id, source.memory_id, source.conversation_id, source.message_id,
       nullif(source.quote, '')
FROM @its_user AS u
CROSS JOIN unnest(%(memory_ids)s::uuid[], %(conversation_ids)s::text[], %(message_ids)s::text[],
                  %(quotes)s::text[]) AS source (memory_id, conversation_id, message_id, quote)
ON CONFLICT (tenant_id, user_id, memory_id, source_key) DO UPDATE SET quote = EXCLUDED.quote
WHERE EXCLUDED.quote IS NOT NULL
"""

_WRITE_VECTOR = """
INSERT INTO memory_embeddings (tenant_id, user_id, memory_id, model, dimensions, status, embedding,
                               text_version)
SELECT m.tenant_id, m.user_id, m.memory_id, %(model)s, vector_dims(new.vector), new.status,
       new.vector, m.text_version
FROM unnest(%(memory_ids)s::uuid[], %(statuses)s::text[], %(vectors)b::halfvec[])
     AS new (memory_id, status, vector)
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = new.memory_id
WHERE m.sealed IS NULL
ON CONFLICT (tenant_id, user_id, memory_id, model) DO UPDATE
SET embedding = EXCLUDED.embedding, status = EXCLUDED.status,
    text_version = EXCLUDED.text_version
"""

# For a user with encryption on, messages are sealed and have no vector in clear.
_WRITE_SOURCE_VECTOR = """
INSERT INTO memory_source_embeddings (tenant_id, user_id, memory_id, model, dimensions, embedding)
SELECT m.tenant_id, m.user_id, m.memory_id, %(model)s, vector_dims(new.vector), new.vector
FROM unnest(%(memory_ids)s::uuid[], %(vectors)b::halfvec[]) AS new (memory_id, vector)
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = new.memory_id
WHERE m.sealed IS NULL
  AND NOT EXISTS (
      SELECT FROM users AS u
      WHERE u.tenant_id = %(tenant_id)s AND u.user_id = %(user_id)s AND u.encrypt_sensitive)
FOR KEY SHARE OF m
ON CONFLICT (tenant_id, user_id, memory_id, model) DO UPDATE SET embedding = EXCLUDED.embedding
"""


async def insert(user: UserRows, made: Sequence[EditableMemory]) -> None:
    """Store new memories, sensitive ones of a user with encryption on sealed.

    `sealed` says that the words were stored sealed before, and stay so. Sources and entities are
    stored by themselves.
    """
    rows = []
    for each in made:
        memory = each.memory
        key = await key_of_memory(user, memory.type, memory.sensitive, stays_sealed=each.sealed)
        columns = {**fields_of(replace(memory, sources=())), **fields_of(each)}
        del columns["memory"]
        rows.append({**columns, **stored_memory(key, columns)})
    if rows:
        await user.later(_INSERT, rows=records(rows))


async def confirm(user: UserRows, memory_id: UUID, said_at: datetime) -> None:
    """Record when a memory was last repeated in the same words."""
    await user.later(_CONFIRM, memory_id=memory_id, said_at=said_at)


async def confirm_anew(user: UserRows, memory_ids: Collection[UUID]) -> None:
    """Record when memories were last confirmed, by what counts now and is joined to them now."""
    if memory_ids:
        await user.later(_CONFIRM_ANEW, memory_ids=list(memory_ids))


async def add_superseded(user: UserRows, memory_id: UUID, *, by: UUID) -> None:
    """Let the newer of two memories name the older one, as the older names the newer."""
    await user.later(_ADD_SUPERSEDES, memory_id=memory_id, by=by)


async def remove_superseded(user: UserRows, memory_id: UUID, *, by: UUID) -> None:
    """Let the newer of two memories no longer name the older one."""
    await user.later(_REMOVE_SUPERSEDES, memory_id=memory_id, by=by)


async def add_challenge(user: UserRows, memory_id: UUID, challenged: UUID) -> None:
    """Let a quarantined memory name one more that it would contradict."""
    await user.later(_ADD_CHALLENGE, memory_id=memory_id, challenged=challenged)


async def add_may_replace(user: UserRows, memory_id: UUID, older: UUID) -> None:
    """Let a memory name an older one that it probably replaces."""
    await user.later(_ADD_MAY_REPLACE, memory_id=memory_id, older=older)


async def add_sources(
    user: UserRows,
    sources: Sequence[tuple[UUID, SourceRef]],
    quotes: Mapping[tuple[UUID, SourceRef], str] = MappingProxyType({}),
) -> None:
    """Record the messages that memories came from, with the words that were quoted of them."""
    if sources:
        await user.later(
            _ADD_SOURCE,
            memory_ids=Uuids(memory_id for memory_id, _ in sources),
            conversation_ids=Texts(source.conversation_id for _, source in sources),
            message_ids=Texts(source.message_id for _, source in sources),
            quotes=Texts(quotes.get(each, "") for each in sources),
        )


async def write_vectors(
    user: UserRows, vectors: Sequence[tuple[UUID, str, Vector]], *, model: str
) -> None:
    """Store the vectors of memories' present contents: (memory, status, vector)."""
    if vectors:
        await user.later(
            _WRITE_VECTOR,
            model=model,
            memory_ids=Uuids(memory_id for memory_id, _, _ in vectors),
            statuses=Texts(status for _, status, _ in vectors),
            vectors=[HalfVector(vector) for _, _, vector in vectors],
        )


async def write_source_vectors(
    user: UserRows, vectors: Sequence[tuple[UUID, Vector]], *, model: str
) -> None:
    """Store the vectors of memories' source words."""
    if vectors:
        await user.later(
            _WRITE_SOURCE_VECTOR,
            model=model,
            memory_ids=Uuids(memory_id for memory_id, _ in vectors),
            vectors=[HalfVector(vector) for _, vector in vectors],
        )
