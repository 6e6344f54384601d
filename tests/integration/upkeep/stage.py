"""Upkeep on a real database, with rows whose times were set there: no clock is ever patched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from hitherto_extraction.queue import claims, jobs
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.storage.retention import RetentionDays
from hitherto_extraction.upkeep.decay import Decay
from hitherto_extraction.upkeep.retention import Retention
from hitherto_shared.database.connect import Role
from hitherto_shared.database.pool import Database
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Job
from hitherto_shared.startup import configure_vectors

TENANT = "default"
BOUND = 120.0

_MEMORY = """
INSERT INTO memories (tenant_id, user_id, memory_id, type, content, importance, confidence, source,
    origin, status, tags, valid_from, said_at, expires_at, created_at, updated_at, lexical_no,
    lexical_length, embedding_state, conversation_id)
SELECT %(tenant)s, %(user)s, %(memory_id)s, %(type)s, %(content)s, %(importance)s, 'high',
       'conversation', 'user', %(status)s, %(tags)s, now() - %(age)s::interval,
       now() - %(age)s::interval, now() + %(expires)s::interval, now() - %(age)s::interval,
       now() - coalesce(%(changed)s, %(age)s)::interval,
       coalesce(%(lexical_no)s, 1 + (SELECT count(*) FROM memories WHERE user_id = %(user)s)), 1,
       'stored', %(conversation)s
"""


@dataclass
class Stage:
    """The pools, and a look behind the services' backs."""

    conninfo: str
    maintenance: Database
    removal: Database
    write: Database
    admin: psycopg.AsyncConnection[tuple[Any, ...]]

    async def rows(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        cursor = await self.admin.execute(statement.encode(), parameters)
        return await cursor.fetchall() if cursor.description else []

    async def value(self, statement: str, *parameters: Any) -> Any:
        ((found,),) = await self.rows(statement, *parameters)
        return found

    async def put(self, table: str, **values: Any) -> None:
        """A row, of Ana unless it names its user; of a time it says how long ago it was."""
        row = {"tenant_id": TENANT, "user_id": "ana", **values}
        marks = ["now() - %s::interval" if name.endswith("_at") else "%s" for name in row]
        await self.rows(
            f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(marks)})", *row.values()
        )

    async def user(self, user: str = "ana", **settings: Any) -> None:
        await self.rows(
            "INSERT INTO users (tenant_id, user_id) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            TENANT,
            user,
        )
        for column, value in settings.items():
            await self.rows(f"UPDATE users SET {column} = %s WHERE user_id = %s", value, user)

    async def memory(
        self,
        content: str = "Something.",
        *,
        user: str = "ana",
        age: str = "40 days",
        accessed: str | None = None,
        **given: Any,
    ) -> UUID:
        """A memory made `age` ago, by default unimportant, last told `accessed` ago."""
        await self.user(user)
        memory_id = uuid7()
        await self.rows_of(
            _MEMORY,
            {
                "tenant": TENANT,
                "user": user,
                "memory_id": memory_id,
                "type": "fact",
                "content": content,
                "importance": 0.2,
                "status": "active",
                "tags": [],
                "age": age,
                "changed": None,
                "expires": None,
                "lexical_no": None,
                "conversation": None,
                **given,
            },
        )
        if accessed is not None:
            await self.told(memory_id, user=user, ago=accessed)
        return memory_id

    async def told(self, memory_id: UUID, *, user: str = "ana", ago: str = "0 s") -> None:
        """Count the memory as told, as the retrieval service does."""
        await self.rows(
            "INSERT INTO memory_access VALUES (%s, %s, %s, 1, now() - %s::interval)"
            " ON CONFLICT (tenant_id, user_id, memory_id)"
            " DO UPDATE SET last_accessed_at = EXCLUDED.last_accessed_at",
            TENANT,
            user,
            memory_id,
            ago,
        )

    async def vector(self, memory_id: UUID) -> None:
        """Vectors of a memory's content and source."""
        await self.rows(
            "INSERT INTO embedding_models (model, dimensions) VALUES ('m', 8)"
            " ON CONFLICT DO NOTHING"
        )
        vector = {"model": "m", "dimensions": 8, "embedding": "[1,0,0,0,0,0,0,0]"}
        await self.put("memory_embeddings", memory_id=memory_id, status="active", **vector)
        await self.put("memory_source_embeddings", memory_id=memory_id, **vector)

    async def rows_of(self, statement: str, values: Mapping[str, Any]) -> None:
        await self.admin.execute(statement.encode(), values)

    async def statuses(self, user: str = "ana") -> dict[str, str]:
        return dict(
            await self.rows("SELECT content, status FROM memories WHERE user_id = %s", user)
        )

    async def claimed(self, kind: str, user: str | None = None) -> Claim:
        """A job of a kind in a worker's hands."""
        async with self.maintenance.connection() as connection:
            await JobQueue(4).enqueue(connection, TENANT, kind, user_id=user)
            (held,) = await claims.claim(
                connection, worker="test", kinds=[kind], limit=1, lease_seconds=60
            )
        return held

    async def job(self, held: Claim) -> Job:
        async with self.maintenance.connection() as connection:
            return await jobs.get_job(connection, TENANT, held.job_id)

    async def decay(
        self, user: str | None = None, *, most: int = 0, **given: Any
    ) -> dict[str, int]:
        """Run decay as a worker does; the counts of its job."""
        held = await self.claimed("decay", user)
        await Decay(self.maintenance, max_memories=most, **given).run(held)
        return await self.counts(held)

    async def planned_decay(self, user: str | None = None, *, most: int = 0) -> dict[str, int]:
        """What a run of decay would do."""
        async with self.maintenance.connection() as connection:
            return await Decay(self.maintenance, max_memories=most).count(connection, TENANT, user)

    async def planned_retention(
        self, memory_days: int = 0, message_days: int = 0, user: str | None = None
    ) -> dict[str, int]:
        """What a run of retention would do."""
        retention = Retention(self.removal, RetentionDays(memory_days, message_days))
        async with self.maintenance.connection() as connection:
            return await retention.count(connection, TENANT, user)

    async def retention(
        self, memory_days: int = 0, message_days: int = 0, user: str | None = None
    ) -> dict[str, int]:
        """Run retention as a worker does; the counts of its job."""
        held = await self.claimed("retention", user)
        await Retention(self.removal, RetentionDays(memory_days, message_days)).run(held)
        return await self.counts(held)

    async def counts(self, held: Claim) -> dict[str, int]:
        """The counts of a job that has ended well."""
        job = await self.job(held)
        assert job.state == "succeeded"
        counts: dict[str, int] = job.result["counts"]
        return counts

    async def dump(self) -> str:
        """Everything in every table, as text."""
        names = await self.rows(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'hitherto' ORDER BY 1"
        )
        parts = []
        for (name,) in names:
            parts += [
                f"{name}: {row[0]}" for row in await self.rows(f"SELECT t::text FROM {name} t")
            ]
        return "\n".join(parts)

    async def history(self, memory_id: UUID) -> list[tuple[Any, ...]]:
        """What happened to a memory: action, version, actor, before, after."""
        return await self.rows(
            "SELECT action, version, actor, before, after FROM history WHERE memory_id = %s"
            " ORDER BY recorded_at",
            memory_id,
        )

    async def record(self, memory_id: UUID, action: str, *, ago: str, actor: str = "test") -> None:
        """An event of the past."""
        await self.put(
            "history",
            **{"event_id": uuid7(), "recorded_at": ago, "subject": "memory"},
            **{"memory_id": memory_id, "action": action, "version": 1, "actor": actor},
            after=Jsonb({"content": "Something."}),
        )


@asynccontextmanager
async def staged(conninfo: str, superuser_conninfo: str) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(
            await psycopg.AsyncConnection.connect(superuser_conninfo, autocommit=True)
        )
        pools = []
        roles: tuple[Role, ...] = ("hitherto_maintenance", "hitherto_removal", "hitherto_write")
        for role in roles:
            database = Database(conninfo, role, application="test", configure=configure_vectors)
            await database.open()
            stack.push_async_callback(database.close)
            pools.append(database)
        yield Stage(conninfo, pools[0], pools[1], pools[2], admin)
