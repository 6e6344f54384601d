"""Inserts the rows of an imported export: those that the user does not hold yet.

The caller holds the user's row. The role is hitherto_write. A statement takes the rows of one table
as a JSON array, whose values Postgres converts to the types of the columns. A row is held if its
primary key is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

_PROFILES = """
INSERT INTO profiles (
    tenant_id, user_id, department, summary, current_projects, preferences,
    frequent_intents, access_level, facts, metadata, said_at, sealed, version,
    last_extracted_at, created_at, updated_at)
SELECT %(tenant_id)s, %(user_id)s, r.department, r.summary, r.current_projects, r.preferences,
       r.frequent_intents, r.access_level, r.facts, r.metadata, r.said_at, r.sealed,
       r.version, r.last_extracted_at, r.created_at, r.updated_at
FROM jsonb_populate_recordset(NULL::profiles, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id) DO NOTHING
"""

_PROFILE_VERSIONS = """
INSERT INTO profile_versions (
    tenant_id, user_id, version, profile, sealed, actor, job_id, recorded_at)
SELECT %(tenant_id)s, %(user_id)s, r.version, r.profile, r.sealed, r.actor, r.job_id,
       r.recorded_at
FROM jsonb_populate_recordset(NULL::profile_versions, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, version) DO NOTHING
"""

_CONVERSATIONS = """
INSERT INTO conversations (
    tenant_id, user_id, conversation_id, created_at, updated_at, ended_at, time_zone,
    last_message_no, watermark, last_said_at)
SELECT %(tenant_id)s, %(user_id)s, r.conversation_id, r.created_at, r.updated_at, r.ended_at,
       r.time_zone, r.last_message_no, r.watermark, r.last_said_at
FROM jsonb_populate_recordset(NULL::conversations, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, conversation_id) DO NOTHING
"""

_MESSAGES = """
INSERT INTO messages (
    tenant_id, user_id, conversation_id, message_no, message_id, role, name, content,
    said_at, accepted_at, context_items, pending_action_ids, metadata, sealed)
SELECT %(tenant_id)s, %(user_id)s, r.conversation_id, r.message_no, r.message_id, r.role,
       r.name, r.content, r.said_at, r.accepted_at, r.context_items,
       r.pending_action_ids, r.metadata, r.sealed
FROM jsonb_populate_recordset(NULL::messages, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, conversation_id, message_no) DO NOTHING
"""

_CONVERSATION_SUMMARIES = """
INSERT INTO conversation_summaries (
    tenant_id, user_id, conversation_id, title, summary, key_topics, technical_topics,
    outcome, followup_suggestions, covers_to, created_at, updated_at, sealed)
SELECT %(tenant_id)s, %(user_id)s, r.conversation_id, r.title, r.summary, r.key_topics,
       r.technical_topics, r.outcome, r.followup_suggestions, r.covers_to, r.created_at,
       r.updated_at, r.sealed
FROM jsonb_populate_recordset(NULL::conversation_summaries, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, conversation_id) DO NOTHING
"""

_DOCUMENTS = """
INSERT INTO documents (
    tenant_id, user_id, document_id, source_type, source_id, content_type, title, summary,
    content, author, metadata, source_created_at, content_hash, ingested_hash,
    ingested_heading, job_id, created_at, updated_at, expires_at)
SELECT %(tenant_id)s, %(user_id)s, r.document_id, r.source_type, r.source_id, r.content_type,
       r.title, r.summary, r.content, r.author, r.metadata, r.source_created_at,
       r.content_hash, r.ingested_hash, r.ingested_heading, r.job_id, r.created_at,
       r.updated_at, r.expires_at
FROM jsonb_populate_recordset(NULL::documents, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, document_id) DO NOTHING
"""

_DOCUMENT_CHUNKS = """
INSERT INTO document_chunks (
    tenant_id, user_id, document_id, chunk_id, position, content, lexical_no, lexical_length)
SELECT %(tenant_id)s, %(user_id)s, r.document_id, r.chunk_id, r.position, r.content,
       r.lexical_no, r.lexical_length
FROM jsonb_populate_recordset(NULL::document_chunks, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, chunk_id) DO NOTHING
"""

_ENTITIES = """
INSERT INTO entities (
    tenant_id, user_id, entity_id, name, name_key, type, aliases, mention_count, metadata,
    created_at, updated_at)
SELECT %(tenant_id)s, %(user_id)s, r.entity_id, r.name, r.name_key, r.type, r.aliases,
       r.mention_count, r.metadata, r.created_at, r.updated_at
FROM jsonb_populate_recordset(NULL::entities, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, entity_id) DO NOTHING
"""

_MEMORIES = """
INSERT INTO memories (
    tenant_id, user_id, memory_id, version, type, content, detail, importance, confidence,
    source, origin, status, tags, keywords, context, metadata, sensitive,
    conversation_id, valid_from, valid_to, said_at, expires_at, superseded_by,
    supersedes, created_at, updated_at, job_id, lexical_no, lexical_length,
    embedding_state, challenges, questions, sealed)
SELECT %(tenant_id)s, %(user_id)s, r.memory_id, r.version, r.type, r.content, r.detail,
       r.importance, r.confidence, r.source, r.origin, r.status, r.tags, r.keywords,
       r.context, r.metadata, r.sensitive, r.conversation_id, r.valid_from, r.valid_to,
       r.said_at, r.expires_at, r.superseded_by, r.supersedes, r.created_at,
       r.updated_at, r.job_id, r.lexical_no, r.lexical_length, r.embedding_state,
       r.challenges, r.questions, r.sealed
FROM jsonb_populate_recordset(NULL::memories, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, memory_id) DO NOTHING
"""

_MEMORY_VERSIONS = """
INSERT INTO memory_versions (
    tenant_id, user_id, memory_id, version, type, content, detail, importance, confidence,
    origin, status, tags, keywords, context, metadata, valid_from, valid_to, expires_at,
    superseded_by, known_from, known_to, sensitive, said_at, supersedes, job_id, sealed)
SELECT %(tenant_id)s, %(user_id)s, r.memory_id, r.version, r.type, r.content, r.detail,
       r.importance, r.confidence, r.origin, r.status, r.tags, r.keywords, r.context,
       r.metadata, r.valid_from, r.valid_to, r.expires_at, r.superseded_by,
       r.known_from, r.known_to, r.sensitive, r.said_at, r.supersedes, r.job_id,
       r.sealed
FROM jsonb_populate_recordset(NULL::memory_versions, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, memory_id, version) DO NOTHING
"""

_MEMORY_SOURCES = """
INSERT INTO memory_sources (
    tenant_id, user_id, memory_id, conversation_id, message_id)
SELECT %(tenant_id)s, %(user_id)s, r.memory_id, r.conversation_id, r.message_id
FROM jsonb_populate_recordset(NULL::memory_sources, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, memory_id, source_key) DO NOTHING
"""

_MEMORY_ACCESS = """
INSERT INTO memory_access (
    tenant_id, user_id, memory_id, access_count, last_accessed_at)
SELECT %(tenant_id)s, %(user_id)s, r.memory_id, r.access_count, r.last_accessed_at
FROM jsonb_populate_recordset(NULL::memory_access, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, memory_id) DO NOTHING
"""

_ENTITY_MENTIONS = """
INSERT INTO entity_mentions (
    tenant_id, user_id, entity_id, memory_id)
SELECT %(tenant_id)s, %(user_id)s, r.entity_id, r.memory_id
FROM jsonb_populate_recordset(NULL::entity_mentions, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, entity_id, memory_id) DO NOTHING
"""

_DOCUMENT_MENTIONS = """
INSERT INTO document_mentions (
    tenant_id, user_id, entity_id, document_id, names)
SELECT %(tenant_id)s, %(user_id)s, r.entity_id, r.document_id, r.names
FROM jsonb_populate_recordset(NULL::document_mentions, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, entity_id, document_id) DO NOTHING
"""

_PREFERENCES = """
INSERT INTO preferences (
    tenant_id, user_id, type, key, value, confidence, observations, updated_at)
SELECT %(tenant_id)s, %(user_id)s, r.type, r.key, r.value, r.confidence, r.observations,
       r.updated_at
FROM jsonb_populate_recordset(NULL::preferences, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, type, key) DO NOTHING
"""

_FEEDBACK = """
INSERT INTO feedback (
    tenant_id, user_id, feedback_id, conversation_id, message_id, rating, original, edited,
    memory_ids, created_at)
SELECT %(tenant_id)s, %(user_id)s, r.feedback_id, r.conversation_id, r.message_id, r.rating,
       r.original, r.edited, r.memory_ids, r.created_at
FROM jsonb_populate_recordset(NULL::feedback, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, feedback_id) DO NOTHING
"""

_HISTORY = """
INSERT INTO history (
    tenant_id, user_id, event_id, recorded_at, subject, memory_id, action, version, actor,
    reason, job_id, before, after, related_memory_id)
SELECT %(tenant_id)s, %(user_id)s, r.event_id, r.recorded_at, r.subject, r.memory_id, r.action,
       r.version, r.actor, r.reason, r.job_id, r.before, r.after, r.related_memory_id
FROM jsonb_populate_recordset(NULL::history, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, event_id) DO NOTHING
"""

_STATEMENTS = """
INSERT INTO statements (
    tenant_id, user_id, statement_id, subject, memory_id, conversation_id, document_id,
    job_id, action, version, made_version, origin, said_at, said, sealed, recorded_at,
    taken_back_at)
SELECT %(tenant_id)s, %(user_id)s, r.statement_id, r.subject, r.memory_id, r.conversation_id,
       r.document_id, r.job_id, r.action, r.version, r.made_version, r.origin,
       r.said_at, r.said, r.sealed, r.recorded_at, r.taken_back_at
FROM jsonb_populate_recordset(NULL::statements, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, statement_id) DO NOTHING
"""

_CONSOLIDATION_GROUPS = """
INSERT INTO consolidation_groups (
    tenant_id, user_id, tag, fingerprint, members, job_id, examined_at)
SELECT %(tenant_id)s, %(user_id)s, r.tag, r.fingerprint, r.members, r.job_id, r.examined_at
FROM jsonb_populate_recordset(NULL::consolidation_groups, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, tag) DO NOTHING
"""

_SESSION_CONTEXTS = """
INSERT INTO session_contexts (
    tenant_id, user_id, session_id, context, updated_at, expires_at)
SELECT %(tenant_id)s, %(user_id)s, r.session_id, r.context, r.updated_at, r.expires_at
FROM jsonb_populate_recordset(NULL::session_contexts, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, session_id) DO NOTHING
"""

_RECENT_ITEMS = """
INSERT INTO recent_items (
    tenant_id, user_id, items, updated_at, expires_at)
SELECT %(tenant_id)s, %(user_id)s, r.items, r.updated_at, r.expires_at
FROM jsonb_populate_recordset(NULL::recent_items, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id) DO NOTHING
"""

_PENDING_ACTIONS = """
INSERT INTO pending_actions (
    tenant_id, user_id, action_id, session_id, type, params, description, state, result,
    created_at, updated_at, expires_at)
SELECT %(tenant_id)s, %(user_id)s, r.action_id, r.session_id, r.type, r.params, r.description,
       r.state, r.result, r.created_at, r.updated_at, r.expires_at
FROM jsonb_populate_recordset(NULL::pending_actions, %(rows)s::jsonb) AS r
ON CONFLICT (tenant_id, user_id, action_id) DO NOTHING
"""

_INSERTS: Mapping[str, str] = {
    "profiles": _PROFILES,
    "profile_versions": _PROFILE_VERSIONS,
    "conversations": _CONVERSATIONS,
    "messages": _MESSAGES,
    "conversation_summaries": _CONVERSATION_SUMMARIES,
    "documents": _DOCUMENTS,
    "document_chunks": _DOCUMENT_CHUNKS,
    "entities": _ENTITIES,
    "memories": _MEMORIES,
    "memory_versions": _MEMORY_VERSIONS,
    "memory_sources": _MEMORY_SOURCES,
    "memory_access": _MEMORY_ACCESS,
    "entity_mentions": _ENTITY_MENTIONS,
    "document_mentions": _DOCUMENT_MENTIONS,
    "preferences": _PREFERENCES,
    "feedback": _FEEDBACK,
    "history": _HISTORY,
    "statements": _STATEMENTS,
    "consolidation_groups": _CONSOLIDATION_GROUPS,
    "session_contexts": _SESSION_CONTEXTS,
    "recent_items": _RECENT_ITEMS,
    "pending_actions": _PENDING_ACTIONS,
}


class RowRefused(Exception):
    """A row contradicts itself or the rows before it.

    Attributes:
        index: Its place among the given rows.
        why: What is wrong with it, without its contents.
    """

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index
        self.why = why


async def insert(
    connection: Connection, scope: Scope, table: str, rows: Sequence[Mapping[str, Any]]
) -> int:
    """Insert those of the rows that the user does not hold; returns their number.

    Raises:
        RowRefused: One breaks a rule of the table, or refers to a row that is not there; nothing
            was inserted.
    """
    try:
        async with connection.transaction():
            return await _insert(connection, scope, table, rows)
    except (psycopg.IntegrityError, psycopg.DataError):
        pass
    # One by one, to find it.
    inserted = 0
    async with connection.transaction():
        for index, row in enumerate(rows):
            try:
                async with connection.transaction():
                    inserted += await _insert(connection, scope, table, [row])
            except psycopg.errors.ForeignKeyViolation:
                raise RowRefused(index, "refers to a record that does not precede it") from None
            except (psycopg.IntegrityError, psycopg.DataError) as error:
                rule = error.diag.constraint_name or error.sqlstate
                raise RowRefused(index, f"contradicts itself (rule {rule})") from None
    return inserted


async def _insert(
    connection: Connection, scope: Scope, table: str, rows: Sequence[Mapping[str, Any]]
) -> int:
    cursor = await connection.execute(
        _INSERTS[table], {**scope.parameters, "rows": json.dumps(list(rows), ensure_ascii=False)}
    )
    return cursor.rowcount
