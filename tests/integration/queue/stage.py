"""The queue's own modules on a real database, put together as a test needs them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from hitherto_extraction.budget import SHARES, Budget
from hitherto_extraction.intake import Intake
from hitherto_extraction.job_calls import Accepted
from hitherto_extraction.pipeline.commit import Commit
from hitherto_extraction.pipeline.extraction import Extraction
from hitherto_extraction.pipeline.extraction_prompt import ExtractionRules
from hitherto_extraction.pipeline.failed_attempts import FailedAttempts, UnusableReplies
from hitherto_extraction.prices import load_prices
from hitherto_extraction.provider.protocol import ChatModel
from hitherto_extraction.queue import claims
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.queue.jobs import JobSignals
from hitherto_extraction.storage.conversations import IncomingMessage
from hitherto_extraction.storage.idempotency import Identity
from hitherto_extraction.transcripts import IncomingTranscript
from hitherto_extraction.worker import Runner, Worker
from hitherto_shared.audit.trail import Trail
from hitherto_shared.database.pool import Database
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.models import Scope
from hitherto_shared.startup import configure_vectors
from tests.waiting import eventually

TENANT = "default"
ANA = Scope(TENANT, "ana")
REPLIES = UnusableReplies(bytes(32))
KINDS = [*SHARES, "decay", "retention"]
"""Every kind of job."""
UNFINISHED = ("queued", "running", "failed")
Pool = TypeVar("Pool", bound=Database)
BOUND = 120.0
"""Seconds after which a wait is given up; nothing is expected to take that long."""


def message(number: int, text: str | None = None, *, role: str = "") -> IncomingMessage:
    """Message `m<number>`: odd ones by the user, even ones by the assistant."""
    return IncomingMessage(
        message_id=f"m{number}",
        role=role or ("user" if number % 2 else "assistant"),
        name="",
        content=text if text is not None else f"canary:w{number}",
        said_at=datetime(2026, 1, 1, 12, tzinfo=UTC),
    )


def transcript(
    first: int = 1,
    last: int = 2,
    *,
    user: str = "ana",
    conversation: str = "c1",
    ended: bool = False,
) -> IncomingTranscript:
    """Messages `first`..`last` of a conversation."""
    return IncomingTranscript(
        user_id=user,
        conversation_id=conversation,
        messages=[message(n) for n in range(first, last + 1)],
        ended=ended,
    )


def identity(key: str, body: bytes = b"body", rpc: str = "SubmitTranscripts") -> Identity:
    """A call's identity; `body` stands for its body."""
    return Identity(TENANT, "", rpc, key, body.ljust(32, b"\0")[:32])


@dataclass
class Stage:
    """Pools of both roles, and a look behind the services' backs."""

    conninfo: str
    write: Database
    maintenance: Database
    signals: JobSignals
    admin: psycopg.AsyncConnection[tuple[Any, ...]]
    _stack: AsyncExitStack
    _admin_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def intake(self, database: Database | None = None, **rules: Any) -> Intake:
        """An intake; keyword arguments replace its settings."""
        usual = Intake(
            database or self.write,
            JobQueue(4),
            memory_enabled=True,
            extract_every=10,
            debounce_seconds=0.0,
        )
        return replace(usual, **rules)

    async def submit(self, *transcripts: IncomingTranscript) -> Accepted:
        return await self.intake().submit(TENANT, transcripts, None, timeout=BOUND)

    def extraction(
        self,
        chat: ChatModel,
        *,
        database: Database | None = None,
        batch_tokens: int = 6_000,
        budget: float = 0.0,
    ) -> Extraction:
        """The pipeline behind extraction jobs, without vectors."""
        write = database or self.write
        return Extraction(
            write,
            chat,
            OfflineEmbedder(),
            Commit(write, memory_enabled=True, dedupe_threshold=lambda: 1.0),
            load_prices(None),
            ExtractionRules(batch_tokens=batch_tokens, prompt_memories=10),
            FailedAttempts(write, load_prices(None), REPLIES),
            Budget(budget),
        )

    def worker(
        self,
        runner: Runner,
        *,
        database: Database | None = None,
        concurrency: int = 4,
        lease_seconds: float = 60.0,
        backoff_seconds: float = 0.01,
        budget: float = 0.0,
        standstill_seconds: float = 5.0,
        trail: Trail | None = None,
        **others: Runner,
    ) -> Worker:
        """A worker that is not started; whoever starts it is relieved of stopping it.

        `others` are runners of further kinds of jobs, by name.
        """
        worker = Worker(
            database or self.maintenance,
            self.signals,
            {"memory-extraction": runner, **others},
            Budget(budget),
            trail,
            concurrency=concurrency,
            lease_seconds=lease_seconds,
            backoff_seconds=backoff_seconds,
            standstill_seconds=standstill_seconds,
        )
        self._stack.push_async_callback(worker.stop, 0.0)
        return worker

    async def pool(self, database: Pool) -> Pool:
        """`database` opened, and closed when the test ends."""
        await database.open()
        self._stack.push_async_callback(database.close)
        return database

    async def claim(self, limit: int = 10, *, lease_seconds: float = 60.0) -> list[Claim]:
        """Claim jobs as a worker would."""
        async with self.maintenance.connection() as connection:
            return await claims.claim(
                connection, worker="test", kinds=KINDS, limit=limit, lease_seconds=lease_seconds
            )

    async def finish(self, held: Claim) -> None:
        """End a claimed job as done, whatever it was about."""
        async with self.maintenance.connection() as connection:
            await claims.record_progress(
                connection, held, done_to=held.range_to or 0, result={}, finished=True
            )

    async def rows(self, statement: str, *parameters: Any, **named: Any) -> list[tuple[Any, ...]]:
        async with self._admin_lock:
            cursor = await self.admin.execute(statement.encode(), named or parameters)
            return await cursor.fetchall() if cursor.description else []

    async def value(self, statement: str, *parameters: Any) -> Any:
        ((found,),) = await self.rows(statement, *parameters)
        return found

    async def states(self) -> Counter[str]:
        return Counter(row[0] for row in await self.rows("SELECT state FROM jobs"))

    async def job(self, job_id: UUID) -> Mapping[str, Any]:
        """Everything the database holds about a job."""
        found: Mapping[str, Any] = await self.value(
            "SELECT to_jsonb(jobs) FROM jobs WHERE job_id = %s", job_id
        )
        return found

    async def idle(self) -> bool:
        states = await self.states()
        return not any(states[state] for state in UNFINISHED)

    async def settled(self) -> None:
        await eventually(self.idle)

    async def expire_leases(self, *job_ids: UUID) -> None:
        """Let the time of these running jobs' leases be over; without any, of all."""
        await self.rows(
            "UPDATE jobs SET lease_until = clock_timestamp() - interval '1 second'"
            " WHERE state = 'running' AND (%(all)s OR job_id = ANY(%(ids)s::uuid[]))",
            all=not job_ids,
            ids=list(job_ids),
        )

    async def memories(self) -> list[tuple[str, str, int]]:
        """Every memory: whose, what, and how often it was changed."""
        found = await self.rows("SELECT user_id, content, version FROM memories ORDER BY 1, 2")
        return [(row[0], row[1], row[2]) for row in found]


@asynccontextmanager
async def staged(conninfo: str, superuser_conninfo: str) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(
            await psycopg.AsyncConnection.connect(superuser_conninfo, autocommit=True)
        )
        write = Database(
            conninfo, "hitherto_write", application="test", configure=configure_vectors
        )
        maintenance = Database(
            conninfo, "hitherto_maintenance", application="test", configure=configure_vectors
        )
        for database in (write, maintenance):
            await database.open()
            stack.push_async_callback(database.close)
        signals = JobSignals(maintenance.conninfo)
        await signals.start()
        stack.push_async_callback(signals.stop)
        yield Stage(conninfo, write, maintenance, signals, admin, stack)
