"""Fills the database with people, and with copies of them.

The extraction service imports each person from an export. It writes all rows that reading looks at,
and computes the vectors and indexes, as for any user. History, usage and jobs stay empty.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import psycopg

from benchmarks.processes import BenchmarkProcess, Processes
from benchmarks.retrieval.person import Person, export_of
from benchmarks.serving import all_vectors
from hitherto.v1 import privacy_service_pb2, privacy_service_pb2_grpc
from hitherto_shared.auth.principal import DEFAULT_TENANT
from hitherto_shared.database.embedded import EmbeddedPostgres

TENANT = DEFAULT_TENANT
_LINES = 200
"""Rows in one message of an import."""

Connection = psycopg.Connection[tuple[Any, ...]]

# Every table with rows of an imported user. The last part of an id, which is random, is made anew
# for each copy: ids still sort by time.
_TABLES = (
    "users profiles profile_versions preferences entities conversations messages "
    "conversation_summaries memories memory_embeddings memory_source_embeddings memory_sources "
    "memory_access postings entity_mentions message_embeddings summary_embeddings "
    "passage_postings passage_statistics"
).split()
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


async def load(
    folder: Path,
    postgres: EmbeddedPostgres,
    embedder: BenchmarkProcess,
    people: Iterable[Person],
    loaded: Callable[[Person], None],
) -> None:
    """Import people, one after the other, and wait for all vectors.

    Args:
        folder: Whose `data` the database lies in.
        postgres: The database.
        embedder: Makes the vectors.
        people: Whom to import.
        loaded: Is told after each of them.

    Raises:
        BenchmarkFailed: The extraction service did not come up.
    """
    with Processes(folder) as processes:
        service = await processes.start_service("extraction", embedder)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{service.port}") as channel:
            privacy = privacy_service_pb2_grpc.PrivacyServiceStub(channel)
            for person in people:
                await privacy.ImportUser(_import_of(person))
                loaded(person)
        await all_vectors(postgres.conninfo())


def _import_of(person: Person) -> Iterator[privacy_service_pb2.ImportUserRequest]:
    owner = {"tenant_id": TENANT, "user_id": person.user_id}
    for table, rows in export_of(person).items():
        for start in range(0, len(rows), _LINES):
            lines = [
                json.dumps({"table": table, "row": {**owner, **row}}, default=str) + "\n"
                for row in rows[start : start + _LINES]
            ]
            yield privacy_service_pb2.ImportUserRequest(
                user_id=person.user_id, data="".join(lines).encode()
            )


def connect(superuser_conninfo: str) -> Connection:
    """An administrator's connection that writes as the owner, without looking up references."""
    connection = psycopg.connect(superuser_conninfo, autocommit=True)
    connection.execute("SET search_path = hitherto, public")
    # Every copied row is right by construction; the owner alone could not say so.
    connection.execute("SET session_replication_role = replica")
    connection.execute("SET ROLE hitherto_owner")
    return connection


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
