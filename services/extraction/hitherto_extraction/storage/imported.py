"""Reads and prepares what an import finds, and inserts the rows that the user does not hold yet.

The caller holds the user's row. The role is hitherto_write. The rows of one table are a JSON array,
whose values Postgres converts to the types of the columns. A row is held if its primary key is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

from hitherto_extraction.storage import holdings, settings
from hitherto_shared.database.user_rows import UserRows

# Settings alone are no data.
_DATA = (
    *("memories", "conversations", "profiles", "documents", "entities", "preferences"),
    *("feedback", "history", "session_contexts", "recent_items", "pending_actions"),
)

_ADOPT = """
UPDATE users SET created_at = %(created_at)s::timestamptz
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_HOLD_OFF = """
UPDATE users
SET importing_until = statement_timestamp() + make_interval(secs => %(seconds)s::float8)
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
"""

_HELD_MEMORIES = """
SELECT memory_id::text, sealed IS NOT NULL
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND memory_id = ANY(%(memory_ids)s::uuid[])
"""

# Also where another chunk is by now: the document was handed in otherwise, and as before again.
_HELD_CHUNKS = """
SELECT given.chunk_id
FROM jsonb_to_recordset(%(rows)s::jsonb)
     AS given (chunk_id text, document_id text, "position" integer)
WHERE EXISTS (
    SELECT FROM document_chunks AS k
    WHERE k.tenant_id = %(tenant_id)s AND k.user_id = %(user_id)s
      AND k.chunk_id = given.chunk_id::uuid)
  OR EXISTS (
    SELECT FROM document_chunks AS k
    WHERE k.tenant_id = %(tenant_id)s AND k.user_id = %(user_id)s
      AND k.document_id = given.document_id::uuid AND k.position = given."position")
"""

# Of what has a name of its own for a user: the rows in whose place others are by now.
_NAMED_ENTITIES = """
SELECT given.entity_id, e.entity_id::text
FROM jsonb_to_recordset(%(rows)s::jsonb) AS given (entity_id text, type text, name_key text)
JOIN entities AS e ON e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
     AND e.type = given.type AND e.name_key = given.name_key
     AND e.entity_id <> given.entity_id::uuid
"""

_NAMED_DOCUMENTS = """
SELECT given.document_id, d.document_id::text
FROM jsonb_to_recordset(%(rows)s::jsonb)
     AS given (document_id text, source_type text, source_id text, content_hash text)
JOIN documents AS d ON d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s
     AND d.source_type = given.source_type AND md5(d.source_id) = md5(given.source_id)
     AND (d.document_id <> given.document_id::uuid OR d.content_hash <> given.content_hash::bytea)
"""

_OTHER_PROFILE = """
SELECT given.created_at, p.created_at::text
FROM jsonb_to_recordset(%(rows)s::jsonb) AS given (created_at text)
JOIN profiles AS p ON p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s
     AND p.created_at <> given.created_at::timestamptz
"""

_BEGUN_OTHERWISE = """
SELECT EXISTS (
    SELECT FROM jsonb_to_recordset(%(rows)s::jsonb)
         AS given (conversation_id text, created_at timestamptz)
    JOIN conversations AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
         AND c.conversation_id = given.conversation_id AND c.created_at <> given.created_at)
"""

# Rows that are held as they were before. What the export tells of them since has the numbers that
# the user's next messages and versions get.
_EARLIER_CONVERSATIONS = """
SELECT EXISTS (
    SELECT FROM jsonb_to_recordset(%(rows)s::jsonb)
         AS given (conversation_id text, last_message_no integer)
    JOIN conversations AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
         AND c.conversation_id = given.conversation_id
         AND c.last_message_no < given.last_message_no)
"""

_EARLIER_MEMORIES = """
SELECT EXISTS (
    SELECT FROM jsonb_to_recordset(%(rows)s::jsonb) AS given (memory_id text, version integer)
    JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
         AND m.memory_id = given.memory_id::uuid AND m.version < given.version)
"""

_EARLIER_PROFILE = """
SELECT EXISTS (
    SELECT FROM jsonb_to_recordset(%(rows)s::jsonb) AS given (created_at text, version integer)
    JOIN profiles AS p ON p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s
         AND p.created_at = given.created_at::timestamptz AND p.version < given.version)
"""

_HEADINGS = """
SELECT document_id::text, ingested_heading
FROM documents
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND document_id = ANY(%(document_ids)s::uuid[])
"""

# Memories are inserted in a state in which no vector is computed for them, because their sources
# follow.
_NOT_INDEXED = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND memory_id > %(after)s
  AND embedding_state = 'refused' AND lexical_length = 0
ORDER BY memory_id
LIMIT %(limit)s
"""

# The present words came after the last version with others.
_AWAIT_VECTORS = """
UPDATE memories AS m
SET embedding_state = 'pending',
    text_version = 1 + coalesce((
        SELECT max(v.version) FROM memory_versions AS v
        WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s
          AND v.memory_id = m.memory_id AND v.version < m.version
          AND v.content <> m.content), 0)
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.memory_id = ANY(%(memory_ids)s) AND m.embedding_state = 'refused'
"""

# Any imported table. Its columns are those that the import has checked: a file names none itself.
_INSERT = """
INSERT INTO {table} (tenant_id, user_id, {columns})
SELECT u.tenant_id, u.user_id, {values}
FROM @its_user AS u
CROSS JOIN jsonb_populate_recordset(NULL::{table}, %(rows)s::jsonb) AS new
ON CONFLICT ON CONSTRAINT {primary_key} DO NOTHING
"""


# An import brings a history of its own, which is told to nobody: only what it makes of the user is.
_TELL = """
INSERT INTO memory_changes (tenant_id, user_id, memory_id, action, version, new_status)
SELECT m.tenant_id, m.user_id, m.memory_id, 'created', m.version, m.status
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
  AND m.memory_id = ANY(%(memory_ids)s::uuid[])
"""

_TELL_PROFILE = """
INSERT INTO memory_changes (tenant_id, user_id, action, version)
SELECT p.tenant_id, p.user_id, 'created', p.version
FROM profiles AS p
WHERE p.tenant_id = %(tenant_id)s AND p.user_id = %(user_id)s
"""


class RowRefused(Exception):
    """The row at `index` contradicts itself or rows before it; `why` has none of its contents."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index
        self.why = why


async def holds_something(user: UserRows) -> bool:
    """Whether anything is stored about the user besides settings."""
    return await holdings.any_rows(user, _DATA)


async def hold_off_writers(user: UserRows, *, seconds: float | None) -> None:
    """Let nobody else write about the user for some time from now on; None ends it."""
    await user.later(_HOLD_OFF, seconds=seconds)


async def adopt(user: UserRows, row: Mapping[str, Any]) -> None:
    """Make the user's row that of an export, with the settings that the user has not chosen."""
    await user.execute(_ADOPT, created_at=row["created_at"])
    chosen = await settings.read(user)
    adopted = {name: row[name] if held is None else held for name, held in chosen.items()}
    await settings.write(user, adopted)


async def held_memories(user: UserRows, memory_ids: Sequence[str]) -> dict[str, bool]:
    """Those of the memories that are stored, and whether they are sealed."""
    return dict(await user.fetch_rows(_HELD_MEMORIES, memory_ids=list(memory_ids)))


async def held_chunks(user: UserRows, rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """The ids of those chunks that are stored, or whose places in their documents are taken."""
    given = _only(rows, "chunk_id", "document_id", "position")
    return set(await user.fetch_values(_HELD_CHUNKS, rows=given))


async def headings(user: UserRows, document_ids: Sequence[str]) -> dict[str, str]:
    """The text that precedes the chunks of each document in the indexes."""
    return dict(await user.fetch_rows(_HEADINGS, document_ids=list(document_ids)))


async def named_otherwise(
    user: UserRows, table: str, rows: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """The ids of those rows in whose place others are in the database, with the ids of these.

    So it is with what was written after an import had been interrupted, or after the export. A
    profile has no id; the time when it was made stands for one.
    """
    statement = {
        "entities": _NAMED_ENTITIES,
        "documents": _NAMED_DOCUMENTS,
        "profiles": _OTHER_PROFILE,
    }[table]
    given = _only(
        rows,
        *("entity_id", "type", "name_key", "document_id", "source_type", "source_id"),
        *("content_hash", "created_at"),
    )
    return dict(await user.fetch_rows(statement, rows=given))


async def begun_otherwise(user: UserRows, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of these conversations has begun anew, with other messages of equal numbers."""
    given = _only(rows, "conversation_id", "created_at")
    return bool(await user.fetch_value(_BEGUN_OTHERWISE, rows=given))


async def holds_earlier(user: UserRows, table: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of these is held with fewer messages or versions than the export has of it."""
    statement = {
        "conversations": _EARLIER_CONVERSATIONS,
        "memories": _EARLIER_MEMORIES,
        "profiles": _EARLIER_PROFILE,
    }.get(table)
    if statement is None:
        return False
    given = _only(rows, "conversation_id", "last_message_no", "memory_id", "created_at", "version")
    return bool(await user.fetch_value(statement, rows=given))


async def not_indexed(user: UserRows, *, after: UUID, limit: int) -> list[UUID]:
    """The next inserted memories, by id, that are not in the keyword index yet."""
    return await user.fetch_values(_NOT_INDEXED, after=after, limit=limit)


async def await_vectors(user: UserRows, memory_ids: Sequence[UUID]) -> None:
    """Let memories wait for vectors, with those of their source words."""
    await user.execute(_AWAIT_VECTORS, memory_ids=list(memory_ids))


async def tell(user: UserRows, memory_ids: Sequence[str]) -> None:
    """Tell those who wait for changes of memories that were inserted."""
    await user.execute(_TELL, memory_ids=list(memory_ids))


async def tell_of_profile(user: UserRows) -> None:
    """Tell those who wait for changes of the profile that was inserted."""
    await user.execute(_TELL_PROFILE)


async def insert(user: UserRows, table: str, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert those of the rows that the user does not hold; returns their number.

    Raises:
        RowRefused: One breaks a rule of the table, or refers to a row that is not there; nothing
            was inserted.
    """
    if not rows:
        return 0
    try:
        async with user.connection.transaction():
            return await _insert(user, table, rows)
    except (psycopg.IntegrityError, psycopg.DataError):
        pass
    # One by one, to find it.
    inserted = 0
    async with user.connection.transaction():
        for index, row in enumerate(rows):
            try:
                async with user.connection.transaction():
                    inserted += await _insert(user, table, [row])
            except psycopg.errors.ForeignKeyViolation:
                raise RowRefused(index, "refers to a record that does not precede it") from None
            except (psycopg.IntegrityError, psycopg.DataError) as error:
                rule = error.diag.constraint_name or error.sqlstate
                raise RowRefused(index, f"contradicts itself (rule {rule})") from None
    return inserted


def _only(rows: Sequence[Mapping[str, Any]], *names: str) -> str:
    """These columns of the rows, those that they have, as JSON."""
    given = [{name: row[name] for name in names if name in row} for row in rows]
    return json.dumps(given, ensure_ascii=False)


async def _insert(user: UserRows, table: str, rows: Sequence[Mapping[str, Any]]) -> int:
    columns = sorted({name for row in rows for name in row})
    statement = sql.SQL(_INSERT).format(
        table=sql.Identifier(table),
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        values=sql.SQL(", ").join(sql.Identifier("new", column) for column in columns),
        primary_key=sql.Identifier(f"{table}_pkey"),
    )
    values = json.dumps(list(rows), ensure_ascii=False)
    return (await user.execute(statement, rows=values)).rowcount
