"""What the logs tell of calls and jobs: ids, what a slow call waited for, counts; no contents."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import grpc
import pytest

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_shared.metrics import REGISTRY
from hitherto_shared.rpc.repeated_lines import WHOLE_LINES, WINDOW_SECONDS, call_lines
from hitherto_shared.telemetry import JsonFormatter
from tests.e2e.conftest import Services
from tests.e2e.curating import save
from tests.e2e.learning import learn, talk
from tests.e2e.methods import ask
from tests.tenants import Tenant
from tests.waiting import eventually

WORD = "zqcanary"


class Log:
    """Everything any logger says, as the services write it."""

    def __init__(self) -> None:
        self.written = io.StringIO()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.written.getvalue().splitlines()]

    def saying(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["message"] == message]

    def of(self, request_id: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("request_id") == request_id]


SERVICE_SETTINGS = {"slow_call_ms": 1, "embedding_deadline_ms": 60_000}
"""Every call counts as slow that asks a model, and waits for it on a busy machine."""


@pytest.fixture
def log() -> Iterator[Log]:
    kept = Log()
    handler = logging.StreamHandler(kept.written)
    handler.setFormatter(JsonFormatter("test"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield kept
    root.removeHandler(handler)
    root.setLevel(before)


async def test_a_slow_call_is_one_line_with_what_it_waited_for(
    modelled: Services, log: Log
) -> None:
    await save(modelled, f"Ana plays the cello, says {WORD}.")
    embedded = modelled.model.calls["embeddings"]
    reply = await modelled.retrieval.SearchMemories(
        pb.SearchMemoriesRequest(user_id="ana", query=f"{WORD} cello"),
        metadata=[("x-request-id", "the-search")],
    )
    assert len(reply.results) == 1
    assert modelled.model.calls["embeddings"] == embedded + 1
    (line,) = [line for line in log.of("the-search") if line["message"] == "slow call"]
    assert line["method"] == "RetrievalService/SearchMemories"
    assert line["code"] == "OK"
    parts = line["parts"]
    assert {"leg keyword", "leg semantic", "model embedding"} <= parts.keys()
    trips = [name for name in parts if name.startswith("sql ")]
    assert any("people." in name for name in trips), trips
    assert all(part["ms"] <= line["milliseconds"] for part in parts.values())
    assert parts["model embedding"]["times"] == 1
    assert WORD not in log.written.getvalue().lower()


async def test_every_line_of_a_call_has_its_id(modelled: Services, log: Log) -> None:
    with pytest.raises(grpc.aio.AioRpcError):
        await modelled.retrieval.GetMemory(
            pb.GetMemoryRequest(user_id="ana", memory_id="none"),
            metadata=[("x-request-id", "the-bad-one")],
        )
    assert {"RetrievalService/GetMemory"} == {
        line["message"].split(" ")[0].removeprefix("/hitherto.v1.")
        for line in log.of("the-bad-one")
        if line["message"].endswith("refused")
    }
    # Whatever else was logged about it, an id is in every line of this logger.
    assert all("request_id" in line for line in log.lines if line["logger"] == "hitherto.rpc")


async def test_a_flood_of_refused_calls_is_a_few_lines_and_their_number(
    modelled: Services, log: Log, tenant: Tenant
) -> None:
    method, flood = "RetrievalService/GetMemory", 120
    sample = {"method": method, "code": "NOT_FOUND", "reason": "MEMORY_NOT_FOUND"}

    def counted() -> float:
        return REGISTRY.get_sample_value("hitherto_rpcs_total", sample) or 0.0

    async def call() -> None:
        with pytest.raises(grpc.aio.AioRpcError):
            await ask(modelled, "GetMemory", memory_id=str(UUID(int=7)))

    before, began = counted(), time.monotonic()
    for _ in range(flood // 10):
        await asyncio.gather(*[call() for _ in range(10)])
    # The service counts a call after its caller was answered.
    await eventually(lambda: counted() == before + flood)
    windows = 2 + (time.monotonic() - began) // WINDOW_SECONDS
    call_lines.flush()
    found = [line for line in log.lines if line.get("tenant_id") == tenant.tenant_id]
    refused = [line for line in found if line["message"] == f"/hitherto.v1.{method} refused"]
    numbers = [line for line in refused if "repeated" in line]
    assert WHOLE_LINES <= len(refused) - len(numbers) <= WHOLE_LINES * windows
    assert sum(line["repeated"] for line in numbers) + len(refused) - len(numbers) == flood
    for line in numbers:
        assert (line["code"], line["reason"]) == ("NOT_FOUND", "MEMORY_NOT_FOUND")
        assert "request_id" not in line
    # Slow ones are lines of another kind, and as many at most.
    assert len(found) <= 2 * (WHOLE_LINES + 1) * windows


async def test_a_job_is_one_line_with_its_counts_and_tokens(modelled: Services, log: Log) -> None:
    result = await learn(modelled, talk(f"remember canary:heron and {WORD}"))
    assert result.memories_created == 1
    # The job ends in the database before its worker logs it.
    await eventually(lambda: log.saying("attempt at a job ended"))
    (line,) = log.saying("attempt at a job ended")
    assert (line["kind"], line["attempt"], line["outcome"]) == ("memory-extraction", 1, "succeeded")
    assert line["counts"]["memories_created"] == 1
    assert (line["tokens"]["chat_input"], line["tokens"]["chat_output"]) == (100, 20)
    assert line["tokens"]["embedding_input"] > 0
    assert line["model_seconds"] > 0
    assert 0 < line["sql_seconds"] <= line["seconds"]
    assert len(line["user_hash"]) >= 16
    assert WORD not in log.written.getvalue().lower()
