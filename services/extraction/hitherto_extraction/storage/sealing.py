"""Seals a user's rows from before encryption was turned on.

The role is hitherto_removal, in a transaction that holds the user's row; for `find_users` and
`leave_without_vectors` it is hitherto_maintenance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import sql

from hitherto_extraction.storage import reembedding, users
from hitherto_extraction.storage.sealed_rows import SEALED, SENSITIVE_TYPES
from hitherto_shared.database.arrays import records
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.at_hand import key_at_hand
from hitherto_shared.encryption.rows import BY_TABLE
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

# Across users: users with sealed memories that lack a vector of the active model.
# Computing those requires the key to their words.
_LEAVE_WITHOUT_VECTORS = """
UPDATE users AS u
SET to_seal = 1
WHERE u.to_seal = 0 AND u.erased_at IS NULL AND EXISTS (
    SELECT FROM memories AS m
    WHERE m.tenant_id = u.tenant_id AND m.user_id = u.user_id AND m.sealed IS NOT NULL
      AND NOT EXISTS (
          SELECT FROM sealed_embeddings AS e
          WHERE e.tenant_id = m.tenant_id AND e.user_id = m.user_id
            AND e.memory_id = m.memory_id AND e.model = %(model)s
            AND e.text_version = m.text_version))
"""

# Any table of `CLEAR`.
_HAS_SEALED = """
SELECT EXISTS (SELECT FROM {table}
               WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND sealed IS NOT NULL)
"""

# Each of these statements finds rows of one table in clear: what names them, the version to seal
# under, and the columns to seal. Without encryption (`all`), only what belongs to sealed memories.

_CLEAR_MEMORIES = """
SELECT memory_id, version, content, detail, tags, keywords, context, metadata, lexical_length
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND %(all)s
  AND sealed IS NULL AND (sensitive OR type = ANY(%(types)s))
ORDER BY memory_id
LIMIT %(limit)s
"""

_CLEAR_VERSIONS = """
SELECT v.memory_id, v.version, v.content, v.detail, v.tags, v.keywords, v.context, v.metadata
FROM memory_versions AS v
JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = v.memory_id
WHERE v.tenant_id = %(tenant_id)s AND v.user_id = %(user_id)s AND v.sealed IS NULL
  AND m.sealed IS NOT NULL
ORDER BY v.memory_id, v.version
LIMIT %(limit)s
"""

# In the order in which vectors are stored.
_CLEAR_MESSAGES = """
SELECT conversation_id, message_no, message_id, name, content, context_items, metadata
FROM messages
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND %(all)s AND sealed IS NULL
ORDER BY tenant_id, user_id, conversation_id, message_no
LIMIT %(limit)s
FOR UPDATE
"""

_CLEAR_SUMMARIES = """
SELECT conversation_id, sealed_version + 1 AS sealed_version, title, summary, key_topics,
       technical_topics, followup_suggestions
FROM conversation_summaries
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND %(all)s AND sealed IS NULL
ORDER BY conversation_id
LIMIT %(limit)s
FOR UPDATE
"""

# Without quotes: they have to go with their messages, for which nobody has the key.
_CLEAR_PROFILES = """
SELECT summary, current_projects, preferences, frequent_intents, facts, metadata, said_at,
       (SELECT coalesce(jsonb_object_agg(s.path, s.source || '{"quote": ""}'), '{}')
        FROM jsonb_each(sources) AS s (path, source)) AS sources,
       version
FROM profiles
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND %(all)s AND sealed IS NULL
LIMIT %(limit)s
"""

_CLEAR_PROFILE_VERSIONS = """
SELECT version, profile
FROM profile_versions
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND %(all)s AND sealed IS NULL
ORDER BY version
LIMIT %(limit)s
"""

# Sealed statements mention no entities.
_CLEAR_STATEMENTS = """
SELECT s.statement_id, s.said - 'entities' AS said
FROM statements AS s
LEFT JOIN memories AS m ON m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s
     AND m.memory_id = s.memory_id
WHERE s.tenant_id = %(tenant_id)s AND s.user_id = %(user_id)s AND s.sealed IS NULL
  AND s.said <> '{}' AND (m.sealed IS NOT NULL OR (%(all)s AND s.subject <> 'memory'))
ORDER BY s.statement_id
LIMIT %(limit)s
"""

_CLEAR_REPLIES = """
SELECT job_id, claim_no, sealed_reply
FROM unusable_replies
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND %(all)s AND sealed IS NULL
ORDER BY job_id, claim_no
LIMIT %(limit)s
"""

# Any table of `CLEAR`. No new version: the words are the same.
_SEAL = """
UPDATE {table} AS held
SET ({columns}) = ROW({values})
FROM jsonb_populate_recordset(NULL::{table}, %(rows)s::jsonb) AS new
WHERE held.tenant_id = %(tenant_id)s AND held.user_id = %(user_id)s AND ({key}) = ({named})
"""

_WITH_CLEAR_VECTORS = """
SELECT m.memory_id
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.sealed IS NOT NULL
  AND (EXISTS (SELECT FROM memory_embeddings AS e
               WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
                 AND e.memory_id = m.memory_id)
       OR EXISTS (SELECT FROM memory_source_embeddings AS e
                  WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s
                    AND e.memory_id = m.memory_id))
ORDER BY m.memory_id
LIMIT %(limit)s
"""

_WITH_MENTIONS = """
SELECT DISTINCT m.memory_id
FROM memories AS m
JOIN entity_mentions AS em ON em.tenant_id = %(tenant_id)s AND em.user_id = %(user_id)s
     AND em.memory_id = m.memory_id
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.sealed IS NOT NULL
LIMIT %(limit)s
"""

# Locked, so that any transaction that stores a vector of their sources has finished.
_LEARNT_FROM = """
SELECT m.memory_id
FROM memories AS m
WHERE m.tenant_id = %(tenant_id)s AND m.user_id = %(user_id)s AND m.sealed IS NULL
  AND m.memory_id IN @learnt_from_messages
ORDER BY m.memory_id
FOR UPDATE OF m
"""

# Of a summary that was sealed with a role that may not delete.
_DELETE_SUMMARY_VECTORS = """
DELETE FROM summary_embeddings AS e
USING conversation_summaries AS s
WHERE e.tenant_id = %(tenant_id)s AND e.user_id = %(user_id)s AND s.tenant_id = %(tenant_id)s
  AND s.user_id = %(user_id)s AND s.conversation_id = e.conversation_id AND s.sealed IS NOT NULL
"""


Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ClearRows:
    """What is sealed of a table: how to `find` rows, their `key`, and what `beside` holds then."""

    find: str
    key: tuple[str, ...]
    beside: Mapping[str, Any] = field(default_factory=dict)


_UNINDEXED = {"lexical_no": None, "lexical_length": 0, "embedding_state": "none"}

CLEAR: Mapping[str, ClearRows] = {
    "memories": ClearRows(
        _CLEAR_MEMORIES,
        ("memory_id",),
        {
            "sensitive": True,
            "questions": [],
            "lexical_no": 0,
            "lexical_length": 0,
            "embedding_state": SEALED,
        },
    ),
    "messages": ClearRows(_CLEAR_MESSAGES, ("conversation_id", "message_no"), _UNINDEXED),
    "conversation_summaries": ClearRows(_CLEAR_SUMMARIES, ("conversation_id",), _UNINDEXED),
    "profiles": ClearRows(_CLEAR_PROFILES, ("version",)),
    "profile_versions": ClearRows(_CLEAR_PROFILE_VERSIONS, ("version",)),
    "memory_versions": ClearRows(_CLEAR_VERSIONS, ("memory_id", "version")),
    "statements": ClearRows(_CLEAR_STATEMENTS, ("statement_id",)),
    "unusable_replies": ClearRows(_CLEAR_REPLIES, ("job_id", "claim_no")),
}
"""By table, in the order of sealing: versions and statements follow their memories."""


async def leave_without_vectors(
    connection: Connection, *, done: tuple[str, datetime] | None
) -> tuple[str, datetime] | None:
    """Let the sweep compute vectors that sealed memories lack since a change of model.

    Returns the change, which is `done` from then on, but for what was being written meanwhile.
    """
    changed = await reembedding.activated(connection)
    if changed == done:
        changed = await reembedding.activated(connection, within=timedelta(hours=1))
    if changed is not None:
        await connection.execute(_LEAVE_WITHOUT_VECTORS, {"model": changed[0]})
    return changed or done


async def has_sealed(user: UserRows) -> bool:
    """Whether anything of the user is sealed. Also with the role hitherto_write."""
    for table in CLEAR:
        if await user.fetch_value(sql.SQL(_HAS_SEALED).format(table=sql.Identifier(table))):
            return True
    return False


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


async def find_clear(user: UserRows, table: str, *, limit: int) -> Rows:
    """Rows of a table that are to be sealed and stand in clear, by column."""
    cursor = await user.execute(
        CLEAR[table].find,
        all=(await users.encryption_of(user)).on,
        types=list(SENSITIVE_TYPES),
        limit=limit,
    )
    return cursor.dicts()


def changed_columns(table: str) -> list[str]:
    """The columns of a table that sealing changes."""
    kind, clear = BY_TABLE[table], CLEAR[table]
    numbered = [kind.version] if kind.version and kind.version not in clear.key else []
    return [*kind.columns, *clear.beside, "sealed", *numbered]


async def seal(user: UserRows, table: str, rows: Rows) -> None:
    """Seal rows that were found in clear."""
    key, kind, clear = key_at_hand(user.scope), BY_TABLE[table], CLEAR[table]
    columns = changed_columns(table)
    sealed = [
        {
            **{name: row[name] for name in (*clear.key, kind.version) if name},
            **kind.columns,
            **{name: row.get(name, empty) for name, empty in clear.beside.items()},
            "sealed": f"\\x{kind.seal(key, row).hex()}",
        }
        for row in rows
    ]
    statement = sql.SQL(_SEAL).format(
        table=sql.Identifier(table),
        columns=sql.SQL(", ").join(sql.Identifier(name) for name in columns),
        values=sql.SQL(", ").join(sql.Identifier("new", name) for name in columns),
        key=sql.SQL(", ").join(sql.Identifier("held", name) for name in clear.key),
        named=sql.SQL(", ").join(sql.Identifier("new", name) for name in clear.key),
    )
    await user.execute(statement, rows=records(sealed))


async def with_clear_vectors(user: UserRows, *, limit: int) -> list[UUID]:
    """Sealed memories with a vector in clear, of any model and wording."""
    return await user.fetch_values(_WITH_CLEAR_VECTORS, limit=limit)


async def with_mentions(user: UserRows, *, limit: int) -> list[UUID]:
    """Sealed memories that mention entities."""
    return await user.fetch_values(_WITH_MENTIONS, limit=limit)


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
