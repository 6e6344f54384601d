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

from hitherto.v1 import job_pb2
from tests.e2e.masks import masked
from tests.e2e.methods import METHODS
from tests.e2e.requests import message, transcript
from tests.faults.otlp import Collector, collecting
from tests.faults.processes import API_KEY, Processes, Service, stub
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
    """Calls both services, and looks at how it is refused."""

    def __init__(self, reading: grpc.aio.Channel, writing: grpc.aio.Channel) -> None:
        self._reading, self.writing = reading, writing

    def call(self, rpc: str, *, credential: str = "", timeout: float = 120, **fields: Any) -> Any:
        """A call with these fields about the user, as `MemoryService/SaveMemory`."""
        kind = METHODS[rpc].request
        known = kind.DESCRIPTOR.fields_by_name
        if "user_id" in known:
            fields.setdefault("user_id", USER)
        request: Any = kind(**fields)
        if "update_mask" in known:
            masked(request)
        channel = self._reading if rpc.startswith("Retrieval") else self.writing
        metadata = [("authorization", credential)] if credential else []
        return stub(channel, rpc)(request, metadata=metadata, timeout=timeout)

    async def refused(self, call: Awaitable[Any]) -> grpc.StatusCode:
        """How a call was refused; nothing of the canaries is in what it says."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        check_status(caught.value)
        return caught.value.code()

    async def refused_or_not(self, call: Awaitable[Any]) -> None:
        """A call that may end in either way."""
        try:
            await call
        except grpc.aio.AioRpcError as error:
            check_status(error)

    def submit(self, conversation: str, text: str = TEXT) -> Any:
        """A transcript of one message."""
        said = message(text, id="m1", name=NAMED)
        given = transcript(said, user=USER, conversation=conversation)
        return self.call("ExtractionService/SubmitTranscripts", transcripts=[given])

    async def learnt(self, conversation: str) -> job_pb2.Job:
        """The job of a transcript, once it has ended."""
        job: job_pb2.Job
        (job,) = (await self.submit(conversation)).jobs
        async with asyncio.timeout(180):
            async for reply in self.call("ExtractionService/WatchJob", job_id=job.id):
                job = reply.job
        assert WORD not in job.error.lower(), job.error
        assert API_KEY not in job.error
        return job

    def save(self, content: str, **fields: Any) -> Any:
        return self.call("MemoryService/SaveMemory", content=content, **fields)


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
        services[1].channel() as reading,
        services[0].channel() as writing,
    ):
        yield Caller(reading, writing), services
    for service in services:
        page, _ = await scraped(service)
        assert "hitherto_rpcs_total" in page
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


def guard(superuser_conninfo: str) -> None:
    """Let the database refuse some rows, and take its time for others."""
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


async def write_what_the_database_refuses(caller: Caller) -> None:
    """CHECK and unique violations, values that do not fit, timeouts."""
    for content in (f"{WORD}-check of tea", f"{WORD}-cast of coffee"):
        refused = await caller.refused(caller.save(content, tags=[f"{WORD}tag"]))
        assert refused is grpc.StatusCode.INTERNAL
    await caller.save(f"{WORD}-twin one")
    refused = await caller.refused(caller.save(f"{WORD}-twin two, about bicycles"))
    assert refused is grpc.StatusCode.ABORTED
    refused = await caller.refused(caller.save(f"{WORD}-slow", timeout=2.0))
    assert refused is grpc.StatusCode.DEADLINE_EXCEEDED
    check = f"{WORD}-check"
    await caller.refused(caller.call("MemoryService/UpdateProfile", profile={"summary": check}))
    given = {"source_type": "notes", "source_id": "d1", "title": check, "content": f"{WORD} text"}
    await caller.refused(caller.call("ExtractionService/IngestDocuments", documents=[given]))
    await caller.refused(caller.submit("refused", check))


async def send_what_is_refused(caller: Caller) -> None:
    """Bytes that are no message, and fields that are bad in every way."""
    raw: Any = caller.writing.unary_unary("/hitherto.v1.MemoryService/SaveMemory")
    for data in (
        TEXT.encode(),
        b"\x0a\x04ana!\x12" + bytes([len(WORD) + 1]) + WORD.encode() + b"\xff",
        b"\x0a" + bytes([len(WORD) + 1]) + b"\xff" + WORD.encode(),
    ):
        await caller.refused(raw(data))
    for fields in (
        {"content": TEXT * 10_000},
        {"content": f"{WORD}\x00"},
        {"tags": [f"{WORD}\x07" * 200]},
        {"importance": 7.0},
        {"idempotency_key": f"{WORD}" * 100},
        {"content": ""},
    ):
        given: dict[str, Any] = {"content": TEXT, **fields}
        await caller.refused(caller.save(**given))
    zone = transcript(message(TEXT), user=USER)
    zone.time_zone = WORD
    refused: dict[str, list[dict[str, Any]]] = {
        "MemoryService/UpdateMemory": [{"memory_id": WORD, "memory": {"content": TEXT}}],
        "ExtractionService/SubmitTranscripts": [{"transcripts": [zone]}],
        "RetrievalService/SearchMemories": [{"query": WORD * 20_000}, {"query": f"{WORD}\x00"}],
        "RetrievalService/ListMemories": [{"page_token": WORD}, {"consistency_token": WORD}],
    }
    for rpc, requests in refused.items():
        for fields in requests:
            await caller.refused(caller.call(rpc, **fields))


async def meet_a_model_at_its_worst(caller: Caller, model: ScriptedModel) -> None:
    """Unusable replies, refusals that quote the prompt, outages; of chat and of embeddings."""
    quoted = f"Incorrect API key provided: {API_KEY}. You sent: {TEXT}"
    bodies = [
        *(text.replace("Anna", WORD).replace("sorry", WORD) for text in CONTENT_FAULTS.values()),
        json.dumps({"new_memories": [{"type": WORD, "content": {"x": TEXT}, "confidence": TEXT}]}),
        json.dumps({"updated_memories": [{"id": WORD, "content": TEXT}], "profile": {WORD: WORD}}),
        json.dumps({"new_memories": [{"type": "fact", "content": TEXT, "valid_from": WORD}]}),
        f"{WORD} " * 2_000,
        f'{{"{WORD}": 1, "{WORD}": 2}}',
    ]
    faults: list[list[Any]] = [
        *([ChatAnswer(body)] * 4 for body in bodies),
        [StatusFault(400, message=quoted, code="invalid_request_error")] * 6,
        [StatusFault(401, message=quoted)] * 4,
        [StatusFault(422, body=json.dumps({"detail": [{"input": TEXT}]}).encode())] * 6,
        [RawReply(f"<html>{TEXT}</html>".encode())] * 4,
        [StatusFault(500, message=quoted), Reset()],
    ]
    previewed = transcript(message(TEXT), user=USER, conversation="preview")
    for number, queued in enumerate(faults):
        model.queue(*queued)
        await caller.learnt(f"c{number}")
        preview = caller.call("ExtractionService/PreviewExtraction", transcript=previewed)
        async with asyncio.timeout(180):
            await caller.refused_or_not(preview)
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
        await caller.call("RetrievalService/SearchMemories", query=f"{WORD} question {number}")
    model.start_over(model.script)


async def test_row_63_what_is_refused_by_services_models_and_the_database(
    talkative: Processes,
    superuser_conninfo: str,
    model: ScriptedModel,
    postgres_log: Callable[[], str],
) -> None:
    async with calling(talkative) as (caller, (extraction, _)):
        await send_what_is_refused(caller)
        await meet_a_model_at_its_worst(caller, model)
        guard(superuser_conninfo)
        await write_what_the_database_refuses(caller)
        # A poison job: what the model found cannot be written, at every attempt.
        found = {"type": "fact", "content": f"{WORD}-check, I"}
        model.queue(*[ChatAnswer(json.dumps({"new_memories": [found]}))] * 4)
        assert (await caller.learnt("poison")).state == job_pb2.JOB_STATE_DEAD
        assert "CheckViolation" in extraction.said
        await eventually(lambda: "NotNullViolation" in extraction.said, "a tick to fail")
    assert WORD not in postgres_log().lower()


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
                caller.save(TEXT, credential=credential),
                caller.call("RetrievalService/GetProfile", credential=credential),
            ):
                assert await caller.refused(call) in (
                    grpc.StatusCode.UNAUTHENTICATED,
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                )
        for service in services:
            assert "CREDENTIAL_INVALID" in service.said
