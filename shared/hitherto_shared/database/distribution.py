"""Which tables a Citus cluster distributes, by `user_id`, and how `hitherto-migrate` does it.

Citus connects to its nodes as the role that sends a statement, with the password that a node's
`pg_dist_authinfo` holds for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import LiteralString

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

from hitherto_shared.database.connect import holds

REFERENCE = ("embedding_models",)
"""Tables that every node has a copy of."""

DISTRIBUTED = (
    "users",
    "conversations",
    "messages",
    "message_embeddings",
    "conversation_summaries",
    "summary_embeddings",
    "passage_postings",
    "passage_statistics",
    "memories",
    "memory_access",
    "memory_embeddings",
    "memory_source_embeddings",
    "memory_sources",
    "memory_versions",
    "sealed_embeddings",
    "postings",
    "statements",
    "feedback",
    "history",
    "entities",
    "entity_mentions",
    "documents",
    "document_chunks",
    "document_chunk_embeddings",
    "document_mentions",
    "profiles",
    "profile_versions",
    "preferences",
    "consolidation_groups",
    "pending_actions",
    "recent_items",
    "session_contexts",
    "unusable_replies",
)
"""Tables of users' data, in the order in which they are distributed."""

LOCAL = frozenset(
    {
        "api_keys",
        "audit_digests",
        "audit_events",
        "audit_read_counts",
        "change_positions",
        "erased_users",
        "idempotency_keys",
        "installation",
        "jobs",
        "memory_changes",
        "quality_samples",
        "query_usage",
        "schedule_runs",
        "schema_migrations",
        "usage_ledger",
        "webhook_deliveries",
        "webhooks",
    }
)
"""Tables that stay on the coordinator."""

_ON_CITUS: LiteralString = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
_UNDISTRIBUTED: LiteralString = """
SELECT planned.name
FROM unnest(%(planned)s::text[]) WITH ORDINALITY AS planned (name, place)
JOIN pg_class AS c ON c.relname = planned.name AND c.relnamespace = to_regnamespace('hitherto')
WHERE NOT EXISTS (SELECT FROM pg_dist_partition AS p WHERE p.logicalrelid = c.oid)
ORDER BY planned.place
"""
_HAS_USERS: LiteralString = "SELECT EXISTS (SELECT FROM users)"

# Local tables with foreign keys to reference tables stay as they are. The functions and the views
# are those of earlier versions: Citus cannot distribute them, and no statement needs them.
_PREPARE: LiteralString = """
SET LOCAL citus.enable_local_reference_table_foreign_keys TO off;
DROP VIEW IF EXISTS whole_memories, short_conversations, said_of_entities CASCADE;
DROP FUNCTION IF EXISTS filtered_memories, filtered_memories_at, memories_at, in_doubt_at,
    learnt_from_messages, filtered_messages, filtered_summaries, filtered_documents, expired_chunks,
    compared_messages, compared_summaries, compared_chunks, sealed_of_memory CASCADE;
"""
_REFERENCE: LiteralString = "SELECT create_reference_table({})"
_USERS: LiteralString = "SELECT create_distributed_table({}, 'user_id')"
_BESIDE_USERS: LiteralString = (
    "SELECT create_distributed_table({}, 'user_id', colocate_with => 'users')"
)
# A migration may have filled its new table. Citus copies the rows and leaves the old ones.
_LEAVE_NO_COPY: LiteralString = "SELECT truncate_local_data_after_distributing_table({})"

TOGETHER = (
    "the database has Citus, and users already: they stay on this server. To distribute them,"
    " export them and import them into an empty database of the cluster: docs/scaling.md"
)
"""What there is to say where `is_together`."""

_NODE_PASSWORD: LiteralString = (
    "INSERT INTO pg_dist_authinfo (nodeid, rolename, authinfo) VALUES (0, {}, {})"
    " ON CONFLICT (rolename, nodeid) DO UPDATE SET authinfo = EXCLUDED.authinfo;"
)


def on_citus(connection: psycopg.Connection) -> bool:
    """Whether the database has the extension."""
    return holds(connection, _ON_CITUS)


def undistributed(connection: psycopg.Connection) -> list[str]:
    """The tables that still are to be distributed, in this order; none where `users` is not."""
    tables = _local(connection)
    return [] if "users" in tables else tables


def to_distribute(connection: psycopg.Connection) -> list[str]:
    """What `distribute` would distribute.

    A database that has users already, none of them distributed, stays as it is, on one server.
    """
    tables = _local(connection)
    return [] if "users" in tables and holds(connection, _HAS_USERS) else tables


def distribute(connection: psycopg.Connection) -> list[str]:
    """Distribute what still is to be, in one transaction, and return the tables' names.

    Args:
        connection: Of `hitherto_owner`, in autocommit, with `hitherto` first in its search path.
    """
    tables = to_distribute(connection)
    if tables:
        with connection.transaction():
            for statement in statements(tables):
                connection.execute(statement)
    return tables


def is_together(connection: psycopg.Connection) -> bool:
    """Whether Citus is there, and all users are on one server nevertheless."""
    return "users" in _local(connection)


def _local(connection: psycopg.Connection) -> list[str]:
    """The tables of the plan that are not distributed; none where there is no Citus."""
    if not on_citus(connection):
        return []
    planned = {"planned": [*REFERENCE, *DISTRIBUTED]}
    return [name for (name,) in connection.execute(_UNDISTRIBUTED, planned).fetchall()]


def statements(tables: Sequence[str]) -> list[sql.Composed]:
    """What distributes these tables."""
    found = [sql.SQL(_PREPARE).format()]
    for table in tables:
        text = _REFERENCE if table in REFERENCE else _USERS if table == "users" else _BESIDE_USERS
        found.append(sql.SQL(text).format(sql.Literal(table)))
        if "users" not in tables:
            found.append(sql.SQL(_LEAVE_NO_COPY).format(sql.Literal(table)))
    return found


def node_passwords(passwords: Iterable[tuple[str, str | None]]) -> str:
    """The SQL that lets each node log in to the others as these roles; in clear, as Citus needs it.

    A role without a password is left out, with a comment.
    """
    # A log of the statements would hold the passwords.
    lines = ["SET log_statement = 'none';", "SET log_min_duration_statement = -1;"]
    for role, password in passwords:
        if password is None:
            lines.append(f"-- {role}: DATABASE_URL and the environment name no password")
            continue
        given = make_conninfo("", password=password)
        statement = sql.SQL(_NODE_PASSWORD).format(sql.Literal(role), sql.Literal(given))
        lines.append(statement.as_string())
    return "\n".join(lines)


def called(tables: Sequence[str]) -> list[str]:
    """What the distribution of tables is called among the migrations; nothing without tables."""
    if not tables:
        return []
    few = ", ".join(tables) if len(tables) < 4 else f"{len(tables)} tables"
    return [f"distribution of {few}"]


def remedy(error: Exception, command: str) -> str:
    """What to do if a node did not let another one in, to be appended to the error's text."""
    if not isinstance(error, errors.ConnectionException) or "remote node" not in str(error):
        return ""
    return (
        ". The nodes of a Citus cluster log in to each other as these roles. Run"
        f" `{command} --node-passwords`, have an administrator run what it prints in this database"
        " on every node, then run this again: docs/scaling.md"
    )
