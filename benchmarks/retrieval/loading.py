"""Fills the database with people, and with copies of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import psycopg
from pgvector.psycopg import register_vector

from benchmarks.embeddings_reply import DIMENSIONS
from benchmarks.retrieval.person import Person
from benchmarks.retrieval.writing import TENANT, Connection, write
from hitherto_shared.config import DEFAULT_EMBEDDING_MODEL as MODEL

_MODEL = """
INSERT INTO embedding_models (model, dimensions, active, activated_at)
VALUES (%s, %s, true, clock_timestamp())
"""

# Of the tables with rows of users, in the order in which rows refer to each other. The last part of
# an id, which is random, is made anew for each copy: ids still sort by time.
_TABLES = (
    "users",
    "profiles",
    "profile_versions",
    "preferences",
    "entities",
    "conversations",
    "messages",
    "conversation_summaries",
    "memories",
    "memory_embeddings",
    "memory_source_embeddings",
    "memory_sources",
    "memory_access",
    "postings",
    "entity_mentions",
    "message_embeddings",
    "summary_embeddings",
    "passage_postings",
    "passage_statistics",
)
_WRITTEN_COLUMNS = """
SELECT column_name
FROM information_schema.columns
WHERE table_schema = 'hitherto' AND table_name = %s
  AND is_generated = 'NEVER' AND is_identity = 'NO'
ORDER BY ordinal_position
"""
_NEW = {
    "user_id": "%(user_id)s",
    "memory_id": "overlay({}::text PLACING substr(md5(%(user_id)s || {}), 1, 12) FROM 25)::uuid",
    "entity_id": "md5(%(user_id)s || {})::uuid",
}


def connect(superuser_conninfo: str) -> Connection:
    """An administrator's connection that writes as the owner, without looking up references."""
    connection = psycopg.connect(superuser_conninfo, autocommit=True)
    connection.execute("SET search_path = hitherto, public")
    # Every row is right by construction; the owner alone could not say so.
    connection.execute("SET session_replication_role = replica")
    connection.execute("SET ROLE hitherto_owner")
    register_vector(connection)
    return connection


def load(
    connection: Connection, people: Iterable[Person], loaded: Callable[[Person], None]
) -> None:
    """Register the embedding model and write people, one after the other.

    Args:
        connection: From `connect`.
        people: Whom to write. Nobody's data is kept longer than its turn, if this is a generator.
        loaded: Is told after each of them.
    """
    connection.execute(_MODEL, [MODEL, DIMENSIONS])
    for person in people:
        with connection.transaction():
            write(connection, person)
        loaded(person)


def clone(connection: Connection, copies: Mapping[str, str]) -> None:
    """Copy users with all that is theirs, inside the database.

    Args:
        connection: From `connect`.
        copies: The ids of the copies by those of the users.
    """
    columns = {
        table: [row[0] for row in connection.execute(_WRITTEN_COLUMNS, [table])]
        for table in _TABLES
    }
    for user_id, copy in copies.items():
        with connection.transaction():
            for table, names in columns.items():
                values = ", ".join(_NEW.get(name, name).format(name, name) for name in names)
                statement = (
                    f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} "
                    f"FROM {table} WHERE tenant_id = %(tenant_id)s AND user_id = %(original)s"
                )
                connection.execute(
                    statement.encode(),
                    {"tenant_id": TENANT, "original": user_id, "user_id": copy},
                )


def settle(connection: Connection) -> None:
    """Leave the database as it is some time after a load: with statistics, and written out."""
    connection.execute("RESET ROLE")
    connection.execute("VACUUM (ANALYZE)")
    connection.execute("CHECKPOINT")
    connection.execute("SET ROLE hitherto_owner")
