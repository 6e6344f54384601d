"""Logs without contents: canaries through every way in which things go wrong (faults.md row 63).

The services run as processes that log at DEBUG, show metrics with tenants and send traces. Whatever
a person wrote, a model answered or a caller authenticated with carries the word `zqcanary`; none of
it may be in a log, the log of Postgres included, a metric or a span, nor in an error that somebody
else could see.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from hitherto.v1 import (
    conversation_pb2,
    document_pb2,
    extraction_service_pb2,
    extraction_service_pb2_grpc,
    job_pb2,
    maintenance_service_pb2_grpc,
    memory_pb2,
    memory_service_pb2,
    memory_service_pb2_grpc,
    privacy_service_pb2_grpc,
    profile_pb2,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)
from tests.e2e.masks import masked
from tests.faults.otlp import Collector, collecting
from tests.faults.processes import API_KEY, CHANNEL_OPTIONS, Processes, Service
from tests.faults.test_metrics import scraped
from tests.scripted_model import (
    CONTENT_FAULTS,
    ChatAnswer,
    EmbeddingFault,
    RawReply,
    Reset,
    ScriptedModel,
    StatusFault,
)
from tests.waiting import eventually

WORD = "zqcanary"
USER = f"{WORD}-user"
NAMED = f"{WORD}Name"
TEXT = f"My name is {NAMED} and I love {WORD} tea, tag {WORD}tag."


class Caller:
    """Stubs on both services, and everything that was refused."""

    def __init__(self, reading: grpc.aio.Channel, writing: grpc.aio.Channel) -> None:
        self.writing = writing
        self.retrieval: Any = retrieval_service_pb2_grpc.RetrievalServiceStub(reading)
        self.extraction: Any = extraction_service_pb2_grpc.ExtractionServiceStub(writing)
        self.memory: Any = memory_service_pb2_grpc.MemoryServiceStub(writing)
        self.privacy: Any = privacy_service_pb2_grpc.PrivacyServiceStub(writing)
        self.maintenance: Any = maintenance_service_pb2_grpc.MaintenanceServiceStub(writing)

    async def refused(self, call: Awaitable[Any]) -> grpc.aio.AioRpcError:
        """How a call was refused; nothing of the canaries is in what it says."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        check_status(caught.value)
        return caught.value

    async def refused_or_not(self, call: Awaitable[Any]) -> None:
        """A call that may end in either way."""
        try:
            await call
        except grpc.aio.AioRpcError as error:
            check_status(error)

    async def ended(self, job_id: str) -> job_pb2.Job:
        """The job, once it has ended."""
        last = job_pb2.Job()
        async with asyncio.timeout(180):
            async for reply in self.extraction.WatchJob(
                extraction_service_pb2.WatchJobRequest(job_id=job_id)
            ):
                last = reply.job
        return last

    async def submit(self, conversation: str, text: str = TEXT) -> str:
        """One transcript; its job."""
        reply = await self.extraction.SubmitTranscripts(
            extraction_service_pb2.SubmitTranscriptsRequest(
                transcripts=[
                    conversation_pb2.Transcript(
                        user_id=USER,
                        conversation_id=conversation,
                        messages=[
                            conversation_pb2.Message(
                                id="m1",
                                role=conversation_pb2.ROLE_USER,
                                name=NAMED,
                                content=text,
                            )
                        ],
                    )
                ]
            )
        )
        job_id: str = reply.jobs[0].id
        return job_id

    def save(self, content: str, **fields: Any) -> Awaitable[Any]:
        """One statement."""
        saved: Awaitable[Any] = self.memory.SaveMemory(
            memory_service_pb2.SaveMemoryRequest(user_id=USER, content=content, **fields)
        )
        return saved


def check_status(error: grpc.aio.AioRpcError) -> None:
    """Nothing in a status that was not an id in the request."""
    status = rpc_status.from_call(error)  # type: ignore[arg-type]
    told = [error.details() or "", error.debug_error_string() or ""]
    for detail in status.details if status is not None else []:
        info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        if detail.Unpack(info):
            told += [value for name, value in info.metadata.items() if not name.endswith("_id")]
        elif detail.Unpack(bad):
            told += [f"{each.field}: {each.description}" for each in bad.field_violations]
    assert WORD not in "\n".join(told).lower(), told


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with collecting() as running:
        yield running


@pytest.fixture
def talkative(
    place: Path, model: ScriptedModel, conninfo: str, collector: Collector
) -> Iterator[Processes]:
    """Services that log everything, on a database of a server that outlives them."""
    processes = Processes(
        place,
        OPENAI_BASE_URL=model.base_url,
        OPENAI_API_KEY=API_KEY,
        DATABASE_URL=conninfo,
        HITHERTO_AUTH="off",
        HITHERTO_LOG_LEVEL="DEBUG",
        HITHERTO_JOB_MAX_RETRIES="1",
        HITHERTO_SLOW_CALL_MS="1",
        HITHERTO_METRICS_LISTEN="127.0.0.1:0",
        HITHERTO_METRICS_TENANTS="true",
        **collector.grpc_settings,
    )
    yield processes
    processes.close()
    called = any("/hitherto.v1." in service.said for service in processes.services)
    assert bool(collector.spans) == called, "calls have spans"
    for data in collector.raw:
        check_log(data.decode("utf-8", "replace"))


@asynccontextmanager
async def calling(processes: Processes) -> AsyncIterator[tuple[Caller, list[Service]]]:
    """A caller of both services; afterwards their logs are searched."""
    services = [*await processes.start_both()]
    async with (
        grpc.aio.insecure_channel(services[1].address, options=CHANNEL_OPTIONS) as reading,
        grpc.aio.insecure_channel(services[0].address, options=CHANNEL_OPTIONS) as writing,
    ):
        yield Caller(reading, writing), services
    for service in services:
        page, _ = await scraped(service)
        check_log(page)
        await service.end()
        check_log(service.said)


def check_log(text: str) -> None:
    """No line of a log has a canary, in clear or as bytes that are read easily."""
    lowered = text.lower()
    for secret in (WORD, base64.b64encode(WORD.encode()).decode().rstrip("=").lower(), API_KEY):
        place = lowered.find(secret.lower())
        assert place < 0, lowered[max(0, place - 500) : place + 200]


@pytest.fixture
def postgres_log(data_dir: Path) -> Callable[[], str]:
    """What the embedded server has logged since the fixture was made."""
    log = data_dir / "postgres.log"
    start = log.stat().st_size

    def said() -> str:
        with log.open("rb") as file:
            file.seek(start)
            return file.read().decode("utf-8", "replace")

    return said


async def test_row_63_rows_that_the_database_refuses(
    talkative: Processes,
    superuser_conninfo: str,
    model: ScriptedModel,
    postgres_log: Callable[[], str],
) -> None:
    """CHECK and unique violations, values that do not fit, timeouts: of calls, jobs and duties."""
    async with calling(talkative) as (caller, (extraction, _)):
        with psycopg.connect(superuser_conninfo, autocommit=True) as admin:
            guards = {
                "memories": [
                    "CHECK (content NOT LIKE '%zqcanary-check%')",
                    "CHECK (content NOT LIKE '%zqcanary-cast%' OR content::integer > 0)",
                ],
                "profiles": ["CHECK (summary NOT LIKE '%zqcanary-check%')"],
                "messages": ["CHECK (content NOT LIKE '%zqcanary-check%')"],
                "documents": ["CHECK (title NOT LIKE '%zqcanary-check%')"],
            }
            for table, checks in guards.items():
                for i, check in enumerate(checks):
                    admin.execute(
                        f"ALTER TABLE {table} ADD CONSTRAINT guard_{i} {check} NOT VALID".encode()
                    )
            admin.execute(
                "CREATE UNIQUE INDEX one_of_a_kind ON memories (left(content, 13))"
                " WHERE content LIKE 'zqcanary-twin%'"
            )
            admin.execute(
                "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN PERFORM set_config('statement_timeout', '50', true);"
                " PERFORM pg_sleep(8); RETURN NEW; END $$"
            )
            admin.execute(
                "CREATE TRIGGER dawdling BEFORE INSERT ON memories FOR EACH ROW"
                " WHEN (NEW.content LIKE '%zqcanary-slow%') EXECUTE FUNCTION dawdle()"
            )
            # A duty of the service: nobody catches its failure but the scheduler. The next one is
            # due within a minute, in which the calls and jobs fail.
            admin.execute(
                "CREATE FUNCTION spill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " INSERT INTO guarded VALUES ('zqcanary-spilt'); RETURN NEW; END $$"
            )
            admin.execute("CREATE TABLE guarded (content text, reason text NOT NULL)")
            admin.execute("GRANT INSERT ON guarded TO PUBLIC")
            admin.execute(
                "CREATE TRIGGER spilling BEFORE INSERT ON schedule_runs FOR EACH ROW"
                " EXECUTE FUNCTION spill()"
            )
        for content in (f"{WORD}-check of tea", f"{WORD}-cast of coffee"):
            error = await caller.refused(caller.save(content, tags=[f"{WORD}tag"]))
            assert error.code() is grpc.StatusCode.INTERNAL
        await caller.save(f"{WORD}-twin one")
        error = await caller.refused(caller.save(f"{WORD}-twin two, about bicycles"))
        assert error.code() is grpc.StatusCode.ABORTED
        error = await caller.refused(
            caller.memory.SaveMemory(
                memory_service_pb2.SaveMemoryRequest(user_id=USER, content=f"{WORD}-slow"),
                timeout=2.0,
            )
        )
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await caller.refused(
            caller.memory.UpdateProfile(
                masked(
                    memory_service_pb2.UpdateProfileRequest(
                        user_id=USER, profile=profile_pb2.Profile(summary=f"{WORD}-check")
                    )
                )
            )
        )
        await caller.refused(
            caller.extraction.IngestDocuments(
                extraction_service_pb2.IngestDocumentsRequest(
                    user_id=USER,
                    documents=[
                        document_pb2.Document(
                            source_type="notes",
                            source_id="d1",
                            title=f"{WORD}-check",
                            content=f"{WORD} text",
                        )
                    ],
                )
            )
        )
        await caller.refused(caller.submit("c1", f"{WORD}-check"))
        # A poison job: what the model found cannot be written, at every attempt.
        model.queue(
            *(
                ChatAnswer(
                    json.dumps({"new_memories": [{"type": "fact", "content": f"{WORD}-check, I"}]})
                )
                for _ in range(4)
            )
        )
        job = await caller.ended(await caller.submit("c2"))
        assert job.state == job_pb2.JOB_STATE_DEAD
        assert WORD not in job.error.lower()
        assert "CheckViolation" in extraction.said
        await eventually(lambda: "NotNullViolation" in extraction.said, "a tick to fail")
    assert WORD not in postgres_log().lower()


async def send_what_is_refused(caller: Caller) -> None:
    """Bytes that are no message, and fields that are bad in every way."""
    raw = caller.writing.unary_unary(
        "/hitherto.v1.MemoryService/SaveMemory",
        request_serializer=lambda given: given,
        response_deserializer=lambda given: given,
    )
    for data in (
        TEXT.encode(),
        b"\x0a\x04ana!\x12" + bytes([len(WORD) + 1]) + WORD.encode() + b"\xff",
        b"\x0a" + bytes([len(WORD) + 1]) + b"\xff" + WORD.encode(),
    ):
        await caller.refused(raw(data))
    for fields in (
        {"content": TEXT * 10_000},
        {"content": f"{WORD}\x00"},
        {"content": TEXT, "tags": [f"{WORD}\x07" * 200]},
        {"content": TEXT, "importance": 7.0},
        {"content": TEXT, "idempotency_key": f"{WORD}" * 100},
        {"content": ""},
    ):
        given: dict[str, Any] = {"content": TEXT, **fields}
        await caller.refused(caller.save(given.pop("content"), **given))
    await caller.refused(
        caller.memory.UpdateMemory(
            masked(
                memory_service_pb2.UpdateMemoryRequest(
                    user_id=USER, memory_id=WORD, memory=memory_pb2.Memory(content=TEXT)
                )
            )
        )
    )
    await caller.refused(
        caller.extraction.SubmitTranscripts(
            extraction_service_pb2.SubmitTranscriptsRequest(
                transcripts=[
                    conversation_pb2.Transcript(
                        user_id=USER,
                        conversation_id="c1",
                        time_zone=WORD,
                        messages=[conversation_pb2.Message(content=TEXT)],
                    )
                ]
            )
        )
    )
    for query in (WORD * 20_000, f"{WORD}\x00"):
        await caller.refused(
            caller.retrieval.SearchMemories(
                retrieval_service_pb2.SearchMemoriesRequest(user_id=USER, query=query)
            )
        )
    await caller.refused(
        caller.retrieval.ListMemories(
            retrieval_service_pb2.ListMemoriesRequest(user_id=USER, page_token=WORD)
        )
    )
    await caller.refused(
        caller.retrieval.ListMemories(
            retrieval_service_pb2.ListMemoriesRequest(user_id=USER, consistency_token=WORD)
        )
    )


async def test_row_63_what_a_model_answers_and_requests_that_are_refused(
    talkative: Processes, model: ScriptedModel
) -> None:
    """Unusable replies, refusals that quote the prompt, outages; of chat and of embeddings."""
    quoted = f"Incorrect API key provided: {API_KEY}. You sent: {TEXT}"
    bodies = [
        *(text.replace("Anna", WORD).replace("sorry", WORD) for text in CONTENT_FAULTS.values()),
        json.dumps({"new_memories": [{"type": WORD, "content": {"x": TEXT}, "confidence": TEXT}]}),
        json.dumps({"updated_memories": [{"id": WORD, "content": TEXT}], "profile": {WORD: WORD}}),
        json.dumps({"new_memories": [{"type": "fact", "content": TEXT, "valid_from": WORD}]}),
        f"{WORD} " * 2_000,
    ]
    faults: list[list[Any]] = [
        *([ChatAnswer(body)] * 4 for body in bodies),
        [StatusFault(400, message=quoted, code="invalid_request_error")] * 6,
        [StatusFault(401, message=quoted)] * 4,
        [StatusFault(422, body=json.dumps({"detail": [{"input": TEXT}]}).encode())] * 6,
        [RawReply(f"<html>{TEXT}</html>".encode())] * 4,
        [StatusFault(500, message=quoted), Reset()],
    ]
    async with calling(talkative) as (caller, _):
        await send_what_is_refused(caller)
        for number, queued in enumerate(faults):
            model.queue(*queued)
            job = await caller.ended(await caller.submit(f"c{number}"))
            assert WORD not in job.error.lower(), job.error
            assert API_KEY not in job.error
            async with asyncio.timeout(180):
                await caller.refused_or_not(
                    caller.extraction.PreviewExtraction(
                        extraction_service_pb2.PreviewExtractionRequest(
                            transcript=conversation_pb2.Transcript(
                                user_id=USER,
                                conversation_id="preview",
                                messages=[
                                    conversation_pb2.Message(
                                        role=conversation_pb2.ROLE_USER, content=TEXT
                                    )
                                ],
                            )
                        )
                    )
                )
        embeddings: list[Any] = [
            StatusFault(400, message=quoted),
            StatusFault(422, body=json.dumps({"detail": [{"input": TEXT}]}).encode()),
            EmbeddingFault("text"),
            EmbeddingFault("wrong_dimensions"),
            RawReply(f"<html>{TEXT}</html>".encode()),
        ]
        for number, fault in enumerate(embeddings):
            model.queue(fault, fault, endpoint="embeddings")
            await caller.save(f"{WORD} fact number {number}")
            model.queue(fault, fault, endpoint="embeddings")
            await caller.retrieval.SearchMemories(
                retrieval_service_pb2.SearchMemoriesRequest(
                    user_id=USER, query=f"{WORD} question {number}"
                )
            )


async def test_row_63_credentials(talkative: Processes) -> None:
    """Keys, tokens and garbage in place of them, where keys are required."""
    talkative.settings["HITHERTO_AUTH"] = "api-key"

    def part(value: dict[str, str]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    token = ".".join([part({"alg": "none"}), part({"sub": WORD}), WORD])
    async with calling(talkative) as (caller, services):
        for credential in (
            f"Bearer mk_0123456789ab_{WORD}",
            f"Bearer {token}",
            f"Basic {WORD}",
            WORD,
            f"Bearer {WORD * 3_000}"[:9_000],
        ):
            for call in (
                caller.memory.SaveMemory(
                    memory_service_pb2.SaveMemoryRequest(user_id=USER, content=TEXT),
                    metadata=[("authorization", credential)],
                ),
                caller.retrieval.GetProfile(
                    retrieval_service_pb2.GetProfileRequest(user_id=USER),
                    metadata=[("authorization", credential)],
                ),
            ):
                error = await caller.refused(call)
                assert error.code() in (
                    grpc.StatusCode.UNAUTHENTICATED,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                )
        for service in services:
            assert "CREDENTIAL_INVALID" in service.said
