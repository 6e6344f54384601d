"""The client over grpcio-testing's channel: the test plays the service, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import grpc
import grpc_testing
import pytest

from hitherto.v1 import (
    extraction_service_pb2,
    job_pb2,
    memory_pb2,
    memory_service_pb2,
    retrieval_service_pb2,
)
from hitherto_client import Hitherto, HithertoCallError, RetryPolicy

SERVICES = [
    module.DESCRIPTOR.services_by_name[name]
    for module, name in (
        (extraction_service_pb2, "ExtractionService"),
        (memory_service_pb2, "MemoryService"),
        (retrieval_service_pb2, "RetrievalService"),
    )
]
METHODS: dict[str, Any] = {
    method.name: method for service in SERVICES for method in service.methods
}


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Any:
    testing: Any = grpc_testing
    made = testing.channel(SERVICES, testing.strict_real_time())
    monkeypatch.setattr("hitherto_client._sync.connection.open_channel", lambda *given: made)
    return made


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as callers:
        yield callers


@pytest.fixture
def client(channel: Any) -> Hitherto:
    return Hitherto(api_key="secret", retry=RetryPolicy(attempts=2, first_wait=0.001))


def test_a_write_that_breaks_off_is_repeated_with_its_key(
    channel: Any, client: Hitherto, callers: ThreadPoolExecutor
) -> None:
    saving: Future[Any] = callers.submit(client.save_memory, "ana", "Ana lives in Porto.")
    metadata, first, rpc = channel.take_unary_unary(METHODS["SaveMemory"])
    assert dict(metadata)["authorization"] == "Bearer secret"
    rpc.terminate(None, (), grpc.StatusCode.UNAVAILABLE, "gone")
    metadata, second, rpc = channel.take_unary_unary(METHODS["SaveMemory"])
    assert first == second
    assert first.idempotency_key
    reply = memory_service_pb2.SaveMemoryResponse(
        memory=memory_pb2.Memory(id="m1", content=first.content), consistency_token="t1"
    )
    rpc.terminate(reply, (), grpc.StatusCode.OK, "")
    assert saving.result(60).memory.content == "Ana lives in Porto."

    reading: Future[Any] = callers.submit(client.get_memory, "ana", "m1")
    _, asked, rpc = channel.take_unary_unary(METHODS["GetMemory"])
    assert asked.consistency_token == "t1"
    rpc.terminate(
        retrieval_service_pb2.GetMemoryResponse(memory=reply.memory), (), grpc.StatusCode.OK, ""
    )
    assert reading.result(60).id == "m1"


def test_the_last_attempt_is_the_error(
    channel: Any, client: Hitherto, callers: ThreadPoolExecutor
) -> None:
    saving = callers.submit(client.save_memory, "ana", "x")
    for attempt in range(2):
        *_, rpc = channel.take_unary_unary(METHODS["SaveMemory"])
        rpc.terminate(None, (), grpc.StatusCode.UNAVAILABLE, f"gone {attempt}")
    with pytest.raises(HithertoCallError, match="gone 1") as error:
        saving.result(60)
    assert error.value.service == "extraction"


def test_a_job_is_followed_across_a_broken_stream(
    channel: Any, client: Hitherto, callers: ThreadPoolExecutor
) -> None:
    seen: SimpleQueue[str] = SimpleQueue()

    def watch() -> None:
        for job in client.watch_job("j1"):
            seen.put(job.state)

    watching = callers.submit(watch)
    for word, state in (
        ("running", job_pb2.JOB_STATE_RUNNING),
        ("succeeded", job_pb2.JOB_STATE_SUCCEEDED),
    ):
        _, asked, rpc = channel.take_unary_stream(METHODS["WatchJob"])
        assert asked.job_id == "j1"
        rpc.send_initial_metadata(())
        job = job_pb2.Job(id="j1", state=state)
        rpc.send_response(extraction_service_pb2.WatchJobResponse(job=job))
        # What it has not read yet would be lost with the stream.
        assert seen.get(timeout=180) == word
        if word == "running":
            rpc.terminate((), grpc.StatusCode.UNAVAILABLE, "restarting")
    watching.result(60)
