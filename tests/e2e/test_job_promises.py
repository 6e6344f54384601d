"""What the contract says of jobs beyond their way through the queue: B5; faults.md rows 10, 18."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack

import grpc
import psycopg
import pytest
from google.protobuf.message import Message

from hitherto.v1 import conversation_pb2, document_pb2, extraction_service_pb2_grpc, job_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from tests.e2e.conftest import Services, StartServices
from tests.e2e.learning import ALL_STATUSES, ended, learn, memories, replies, rows, submit, talk
from tests.e2e.methods import METHODS, ask, insist, read_refusal, refused
from tests.scripted_model import Hang, ScriptedModel, StatusFault
from tests.scripted_model.answers import memory


async def full(services: Services, method: str, request: Message) -> None:
    refusal = await refused(services, METHODS[f"ExtractionService/{method}"], request)
    assert refusal.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (refusal.reason, refusal.metadata) == ("QUEUE_FULL", {"queued": "2"})
    assert refusal.retry_after is not None


def appended(*numbers: int) -> pb.AppendMessagesRequest:
    request = pb.AppendMessagesRequest(user_id="ana", conversation_id="chat")
    for n in numbers:
        request.messages.add(id=f"m{n}", role=conversation_pb2.ROLE_USER, content=f"canary:w{n}")
    return request


async def test_a_full_queue_takes_no_more_until_there_is_room(
    start_services: StartServices,
    model: ScriptedModel,
    superuser_conninfo: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """QUEUE_FULL of every call that would add a job; nothing is stored by it."""
    monkeypatch.setattr("hitherto_extraction.queue.limit._COUNT_ALWAYS_BELOW", 0)
    model.always(Hang())
    settings = {"queue_limit": 2, "model_timeout_seconds": 600.0, "extract_every": 3}
    async with (
        start_services(model, **settings, reconcile=True, drain_seconds=0.1) as services,
        await psycopg.AsyncConnection.connect(superuser_conninfo) as holder,
    ):
        # An import of many people's memories queues a reconciliation for each, which may take
        # hours: they keep no conversation out.
        for user, dose in itertools.product(("cleo", "dee", "fay"), (5, 10)):
            await ask(services, "SaveMemory", user_id=user, content=f"Takes {dose} mg of Ramipril")
        waiting = "SELECT count(*) FROM jobs WHERE state IN ('queued', 'running')"
        assert rows(superuser_conninfo, waiting)[0][0] >= 2
        (hanging,) = await submit(services, talk("hello", conversation="first"))

        # A twin of the call that takes the last room is answered as that call, whose job is not
        # stored yet when the twin asks for room.
        await holder.execute("SELECT FROM users WHERE user_id = 'ana' FOR UPDATE")
        more = talk("more", conversation="second")
        keyed = pb.SubmitTranscriptsRequest(transcripts=[more], idempotency_key="one")
        both = [asyncio.ensure_future(services.extraction.SubmitTranscripts(keyed)) for _ in "12"]
        await asyncio.sleep(0.3)
        await holder.rollback()
        first, twin = [(await each).jobs[0].id for each in both]
        assert first == twin

        messages = "SELECT count(*) FROM messages"
        before = rows(superuser_conninfo, messages)
        transcripts = [talk("more", user="bo")]
        await full(
            services, "SubmitTranscripts", pb.SubmitTranscriptsRequest(transcripts=transcripts)
        )
        document = document_pb2.Document(source_type="gdrive", source_id="d1", title="A title")
        handed = pb.IngestDocumentsRequest(user_id="ana", documents=[document])
        await full(services, "IngestDocuments", handed)
        end = pb.EndConversationRequest(user_id="ana", conversation_id="first")
        await full(services, "EndConversation", end)
        # Messages that would start an extraction; what only waits for more to be said is taken.
        await full(services, "AppendMessages", appended(0, 1, 2))
        assert rows(superuser_conninfo, messages) == before
        await services.extraction.AppendMessages(appended(0, 1))
        # A known key is answered, too.
        again = await services.extraction.SubmitTranscripts(keyed)
        assert again.jobs[0].id == first
        job = await ask(services, "CancelJob", job_id=hanging)
        assert job.job.state == job_pb2.JOB_STATE_CANCELLED
        # How many there are is not counted by every call.
        await insist(lambda: submit(services, talk("more", user="eve")))
        await full(services, "RetryJob", pb.RetryJobRequest(job_id=hanging))


async def test_row_10_whoever_watches_a_job_is_told_that_the_service_stops(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """And does not hold the drain: it would last ten minutes."""
    model.always(StatusFault(503, retry_after="900"))
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(180):
            async with start_services(model, drain_seconds=600.0) as services:
                (job_id,) = await submit(services, talk("hello"))
                # A channel that is still open when the service stops.
                channel = await stack.enter_async_context(
                    grpc.aio.insecure_channel(services.extraction_address)
                )
                stub = extraction_service_pb2_grpc.ExtractionServiceStub(channel)
                stream = stub.WatchJob(pb.WatchJobRequest(job_id=job_id))
                watched = aiter(stream)
                while (await anext(watched)).job.state != job_pb2.JOB_STATE_FAILED:
                    pass
        with pytest.raises(grpc.aio.AioRpcError) as stopped:
            await anext(watched)
    refusal = read_refusal(stopped.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
    assert refusal.retry_after is not None


async def test_a_job_of_an_erased_user_cannot_be_retried(services: Services) -> None:
    await learn(services, talk("I live in Lisbon."))
    rows(
        services.conninfo,
        "WITH gone AS (UPDATE users SET erased_at = now() WHERE user_id = 'ana')"
        " UPDATE jobs SET state = 'dead' RETURNING 1",
    )
    ((job_id,),) = rows(services.conninfo, "SELECT job_id::text FROM jobs")
    request = pb.RetryJobRequest(job_id=job_id)
    refusal = await refused(services, METHODS["ExtractionService/RetryJob"], request)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "USER_ERASED")


async def test_started_at_moves_with_the_attempts(modelled: Services) -> None:
    (job_id,) = await submit(modelled, talk("hello"))
    first = await ended(modelled, job_id)
    rows(modelled.conninfo, "UPDATE jobs SET state = 'dead' RETURNING 1")
    await ask(modelled, "RetryJob", job_id=job_id)
    second = await ended(modelled, job_id)
    assert second.started_at.ToNanoseconds() > first.finished_at.ToNanoseconds()


async def test_a_reply_that_takes_too_long_to_plan_costs_attempts_and_ends_dead(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """Rows 30 and 69: two attempts, and less time than the longest replies take on any machine."""
    text = "The user keeps a garden with {} roses. " + "It is watered in the evening. " * 260
    labels = {
        "tags": [f"tag{n}" for n in range(100)],
        "entities": [{"name": f"Rose {n}", "type": "other"} for n in range(50)],
    }
    # As many and as long statements as one reply may hold.
    long = [memory(text.format(n), ["m1"], **labels) for n in range(200)]
    model.script = replies(
        {"roses": {"new_memories": long}, "Porto": [memory("Ana lives in Porto")]}
    )
    settings = {"planning_seconds": 0.01, "job_max_retries": 1}
    async with start_services(model, **settings) as services:
        (job_id,) = await submit(services, talk("I have many roses."))
        job = await ended(services, job_id, within=300)
        assert (job.state, job.attempt) == (job_pb2.JOB_STATE_DEAD, 2), job.error
        assert job.error == (
            "DEADLINE_EXCEEDED: deciding what the model's reply changes took longer than its limit"
            " of 0.01 s, without waiting for the database"
        )
        assert model.calls["chat"] == 2
        assert job.result.usage.input_tokens >= 200, "both calls are charged"
        assert await memories(services, statuses=ALL_STATUSES) == []
        (job_id,) = await submit(services, talk("I live in Porto.", conversation="c2"))
        job = await ended(services, job_id, within=300)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
