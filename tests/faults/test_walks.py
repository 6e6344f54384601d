"""The walks of docs/operations.md: what metrics, logs and traces really show of each fault.

A walk begins with services that are well, and leaves them so.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest

from tests.faults.otlp import Collector, ReceivedSpan, collecting
from tests.faults.processes import API_KEY, Processes, Service, stub
from tests.faults.small_disk import SmallDisk, can_mount
from tests.faults.submitting import Batch
from tests.faults.test_metrics import Samples, scraped, value
from tests.integration.replica.servers import Servers
from tests.scripted_model import Hang, ScriptedModel, StatusFault, canary_script
from tests.waiting import eventually

pytestmark = pytest.mark.chaos

PATIENCE_SECONDS = 180.0
SEARCH = "hitherto.v1.RetrievalService/SearchMemories"
MODEL_CALLS = "hitherto_model_calls_total"
LAG = "hitherto_replica_lag_seconds"


@dataclass
class Walked:
    """Both services with all that is to be seen of them; retrieval reads from the standby."""

    processes: Processes
    model: ScriptedModel
    collector: Collector
    servers: Servers
    disk: SmallDisk | None
    extraction: Service
    retrieval: Service

    async def save(self, user: str, content: str) -> Any:
        return await self.extraction.ask("MemoryService/SaveMemory", user_id=user, content=content)

    async def search(self, user: str, query: str = "", token: str = "") -> Any:
        # A new question, whose vector nobody has asked for yet.
        asked: dict[str, Any] = {"query": query or f"tea {uuid4().hex}", "consistency_token": token}
        return await self.retrieval.ask("RetrievalService/SearchMemories", user_id=user, **asked)

    async def becomes(
        self, service: Service, right: Callable[[Samples], bool], what: str
    ) -> Samples:
        """What the metrics say once they say so."""
        found: Samples = {}

        async def so() -> bool:
            nonlocal found
            _, found = await scraped(service)
            return right(found)

        await eventually(so, what, seconds=PATIENCE_SECONDS)
        return found

    def lines(self, service: Service) -> list[dict[str, Any]]:
        whole = [line for line in service.said.splitlines() if line.startswith("{")]
        return [json.loads(line) for line in whole if line.endswith("}")]

    async def logs(self, service: Service, **fields: Any) -> dict[str, Any]:
        """A line with these fields, and a message that contains the given one."""
        part = fields.pop("message", "")

        def found() -> list[dict[str, Any]]:
            return [
                line
                for line in self.lines(service)
                if part in line["message"] and fields.items() <= line.items()
            ]

        await eventually(found, f"a line with {part!r} and {fields}", seconds=PATIENCE_SECONDS)
        return found()[-1]

    async def span(self, name: str, **attributes: Any) -> ReceivedSpan:
        """The last span of that name with these attributes."""
        given = {key.replace("__", "."): each for key, each in attributes.items()}

        def found() -> list[ReceivedSpan]:
            spans = self.collector.named(name)
            return [each for each in spans if given.items() <= each.attributes.items()]

        await eventually(found, f"a span {name} with {given}", seconds=PATIENCE_SECONDS)
        return found()[-1]

    def below(self, span: ReceivedSpan) -> list[ReceivedSpan]:
        return self.collector.below(span)


@pytest.fixture(scope="module")
async def walked() -> AsyncIterator[Walked]:
    place = Path(tempfile.mkdtemp(prefix="hw-"))
    os.chmod(place, 0o711)
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, place)
        disk = SmallDisk(place / "data") if can_mount() else None
        if disk is not None:
            stack.callback(disk.close)
        model = await stack.enter_async_context(ScriptedModel(canary_script))
        collector = await stack.enter_async_context(collecting())
        servers = Servers(place)
        processes = stack.enter_context(
            closing(
                Processes(
                    place,
                    OPENAI_BASE_URL=model.base_url,
                    OPENAI_API_KEY=API_KEY,
                    HITHERTO_METRICS_LISTEN="127.0.0.1:0",
                    HITHERTO_READ_DATABASE_URL=servers.standby_conninfo,
                    **collector.grpc_settings,
                )
            )
        )
        stack.callback(servers.close)
        services = await processes.start_both()
        yield Walked(processes, model, collector, servers, disk, *services)


async def without_end(call: Callable[[], Awaitable[Any]]) -> None:
    """Call until a call fails."""
    for _ in range(2_000):
        await call()


async def test_the_embedder_is_slow(walked: Walked) -> None:
    told = await walked.save("ana", "Likes tea.")
    walked.model.always(Hang(), endpoint="embeddings")
    assert (await walked.search("ana", token=told.consistency_token)).degraded
    message = "questions are searched without their vector: no embedding within 800 ms"
    line = await walked.logs(walked.retrieval, level="WARNING", message=message)
    await walked.becomes(
        walked.retrieval,
        lambda now: (
            value(now, "hitherto_search_legs_total", leg="semantic", state="timed_out") >= 1
            and value(now, MODEL_CALLS, kind="embedding", outcome="unavailable") >= 1
        ),
        "the time-out and the call to be counted",
    )
    walked.model.always(None, endpoint="embeddings")
    search = await walked.span(SEARCH, hitherto__request_id=line["request_id"])
    (leg,) = [event for event in search.span.events if event.name == "leg semantic"]
    assert "timed_out" in [each.value.string_value for each in leg.attributes]

    def late() -> list[ReceivedSpan]:
        return [each for each in walked.below(search) if each.name == "model embedding"]

    # It ends after the search, which did not wait for it.
    await eventually(late, "the span of the model", seconds=PATIENCE_SECONDS)
    assert late()[0].span.end_time_unix_nano > search.span.end_time_unix_nano
    assert late()[0].attributes["error.type"] == "ModelUnavailable"


async def test_the_replica_is_behind(walked: Walked) -> None:
    walked.servers.pause_replay()
    written = await walked.save("bo", "Has a canoe.")
    assert not (await walked.search("bo")).results
    found = await walked.search("bo", token=written.consistency_token)
    assert [each.memory.content for each in found.results] == ["Has a canoe."]
    await walked.becomes(
        walked.retrieval,
        lambda now: value(now, LAG, database="replica") > 0,
        "the lag to be measured",
    )

    def asked_for_its_position() -> bool:
        return any(
            "consistency.shown" in {each.name for each in walked.below(search)}
            for search in walked.collector.named(SEARCH)
        )

    await eventually(asked_for_its_position, "spans of the check", seconds=PATIENCE_SECONDS)
    walked.servers.freeze_standby()
    assert [each.memory.content for each in (await walked.search("bo")).results] == ["Has a canoe."]
    await walked.logs(walked.retrieval, level="WARNING", message="calls bypass it until it answers")

    def gave_up() -> bool:
        return any(
            each.name == "connection hitherto_read" and "error.type" in each.attributes
            for search in walked.collector.named(SEARCH)
            for each in walked.below(search)
        )

    await eventually(gave_up, "spans of connections given up", seconds=PATIENCE_SECONDS)
    await walked.becomes(
        walked.retrieval,
        lambda now: (
            math.isnan(value(now, LAG, database="replica"))
            and value(now, "hitherto_database_reachable", database="replica") == 0
        ),
        "the frozen replica to have no lag",
    )
    walked.servers.thaw()
    walked.servers.resume_replay()
    await walked.logs(walked.retrieval, message="the replica is reachable again")


async def test_the_disk_fills_up(walked: Walked) -> None:
    if walked.disk is None:
        pytest.skip("the right to mount a file system is needed, to fill one up")
    await walked.save("dee", "Has a dog.")
    walked.disk.fill(600 << 10)
    try:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await without_end(lambda: walked.save("dee", f"A note: {uuid4().hex * 60}"))
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await walked.search("dee")).results
        line = await walked.logs(walked.extraction, reason="STORAGE_FULL", message="refused")
        told = await walked.logs(walked.extraction, sqlstate="53100", message="database: DiskFull")
        assert told["request_id"] == line["request_id"]
        await walked.becomes(
            walked.extraction,
            lambda now: (
                value(
                    now,
                    "hitherto_rpcs_total",
                    method="MemoryService/SaveMemory",
                    code="RESOURCE_EXHAUSTED",
                    reason="STORAGE_FULL",
                )
                == 1
            ),
            "the refusal to be counted",
        )
        save = await walked.span(
            "hitherto.v1.MemoryService/SaveMemory", hitherto__reason="STORAGE_FULL"
        )

        def failed() -> list[ReceivedSpan]:
            below = walked.below(save)
            return [each for each in below if each.attributes.get("error.type") == "53100"]

        await eventually(failed, "the statement that found no room", seconds=PATIENCE_SECONDS)
    finally:
        walked.disk.clear()
    await walked.save("dee", "Has a cat.")


async def test_one_tenant_floods(walked: Walked) -> None:
    limited = await walked.processes.start("retrieval", HITHERTO_TENANT_READS_PER_SECOND="1")
    rpc = "RetrievalService/SearchMemories"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await without_end(lambda: limited.ask(rpc, user_id="eve", query="tea"))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    line = await walked.logs(limited, reason="RATE_LIMITED", message="refused")
    assert line["tenant_id"] == "default"
    limit = {"effect": "refused", "limit": "tenant_reads_per_second", "tenant": ""}
    await walked.becomes(
        limited, lambda now: value(now, "hitherto_rate_limits_total", **limit) == 1, "the refusal"
    )
    search = await walked.span(SEARCH, hitherto__reason="RATE_LIMITED")
    assert not walked.below(search)
    assert await limited.end() == 0


async def test_the_model_key_has_expired(walked: Walked) -> None:
    """The last one: what waits for the model tries again only after a minute, or a restart."""
    told = await walked.save("ana", "Likes coffee.")
    for endpoint in ("chat", "embeddings"):
        walked.model.always(StatusFault(401, code="invalid_api_key"), endpoint=endpoint)
    async with walked.extraction.channel() as channel:
        submit = stub(channel, "ExtractionService/SubmitTranscripts")
        await submit(Batch.new("ana").request(), timeout=120)
    # One that has not yet warned of its embedder, which it does once a minute.
    retrieval = await walked.processes.start("retrieval")
    asked: dict[str, Any] = {"query": "coffee", "consistency_token": told.consistency_token}
    search = "RetrievalService/SearchMemories"
    assert (await retrieval.ask(search, user_id="ana", **asked)).degraded
    states = {"kind": "memory-extraction", "state": "failed"}
    await walked.becomes(
        walked.extraction,
        lambda now: (
            value(now, MODEL_CALLS, kind="chat", outcome="misconfigured") >= 1
            and value(now, "hitherto_jobs", **states) >= 1
            and value(now, "hitherto_oldest_job_seconds", **states) > 0
        ),
        "the refusals and the waiting job to be counted",
    )
    await walked.becomes(
        retrieval,
        lambda now: value(now, "hitherto_search_legs_total", leg="semantic", state="failed") >= 1,
        "the failed leg to be counted",
    )
    for service, message in (
        (walked.extraction, "the language model refuses every request, and what needs it waits"),
        (retrieval, "questions are searched without their vector"),
    ):
        line = await walked.logs(service, level="WARNING", message="check OPENAI_API_KEY")
        assert line["message"].startswith(message)

    def refused() -> list[ReceivedSpan]:
        # Later attempts do not even ask.
        return [
            each
            for attempt in walked.collector.named("job memory-extraction")
            if attempt.attributes["hitherto.job.outcome"] == "model_misconfigured"
            for each in walked.below(attempt)
            if each.name == "model chat"
        ]

    await eventually(refused, "the span of the model", seconds=PATIENCE_SECONDS)
    assert refused()[0].attributes["error.type"] == "ModelMisconfigured"
