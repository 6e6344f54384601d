"""What the contract says of jobs beyond their way through the queue: B5; faults.md rows 10, 18."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack

import grpc
import psycopg
import pytest
from google.protobuf.message import Message

from hitherto.v1 import (
    conversation_pb2,
    document_pb2,
    extraction_service_pb2_grpc,
    job_pb2,
)
from hitherto.v1 import extraction_service_pb2 as pb
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.learning import ended, learn, replies, rows, submit, talk
from tests.e2e.methods import METHODS, Refusal, ask, read_refusal, refused
from tests.scripted_model import Hang, ScriptedModel, StatusFault


async def full(services: Services, method: str, request: Message) -> Refusal:
    refusal = await refused(services, METHODS[f"ExtractionService/{method}"], request)
    assert refusal.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert refusal.reason == "QUEUE_FULL"
    assert refusal.metadata == {"queued": "2"}
    assert refusal.retry_after is not None
    return refusal


def appended(user: str = "ana") -> pb.AppendMessagesRequest:
    return pb.AppendMessagesRequest(
        user_id=user,
        conversation_id="chat",
        messages=[
            conversation_pb2.Message(
                id=f"m{n}", role=conversation_pb2.ROLE_USER, content=f"remember canary:w{n}"
            )
            for n in range(3)
        ],
    )


async def test_a_full_queue_takes_no_more_until_there_is_room(
    start_services: StartServices, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """QUEUE_FULL of every call that would add a job; nothing is stored by it."""
    model.always(Hang())
    settings = model_settings(model) | {"queue_limit": 2, "model_timeout_seconds": 600.0}
    async with start_services(**settings, drain_seconds=0.1) as services:
        hanging = await submit(
            services, *(talk("hello", user=user, conversation="first") for user in ("ana", "bo"))
        )
        before = rows(superuser_conninfo, "SELECT count(*) FROM messages")
        request = pb.SubmitTranscriptsRequest(transcripts=[talk("more")])
        await full(services, "SubmitTranscripts", request)
        document = document_pb2.Document(source_type="gdrive", source_id="d1", title="A title")
        await full(
            services,
            "IngestDocuments",
            pb.IngestDocumentsRequest(user_id="ana", documents=[document]),
        )
        end = pb.EndConversationRequest(user_id="ana", conversation_id="first")
        await full(services, "EndConversation", end)
        # What only waits for more to be said is taken.
        await services.extraction.AppendMessages(appended())
        job = await services.extraction.CancelJob(pb.CancelJobRequest(job_id=hanging[0]))
        assert job.job.state == job_pb2.JOB_STATE_CANCELLED
        await submit(services, talk("more", user="eve"))
        await full(services, "RetryJob", pb.RetryJobRequest(job_id=hanging[0]))
        assert rows(superuser_conninfo, "SELECT count(*) FROM messages") == [(before[0][0] + 4,)]


async def test_a_message_that_would_start_an_extraction_waits_for_room(
    start_services: StartServices, model: ScriptedModel, superuser_conninfo: str
) -> None:
    model.always(Hang())
    settings = model_settings(model) | {"queue_limit": 2, "model_timeout_seconds": 600.0}
    async with start_services(**settings, extract_every=3, drain_seconds=0.1) as services:
        await submit(services, *(talk("hello", user=user) for user in ("bo", "eve")))
        await full(services, "AppendMessages", appended())
        assert rows(superuser_conninfo, "SELECT 1 FROM messages WHERE user_id = 'ana'") == []


async def test_reconciliations_keep_no_conversation_out(
    start_services: StartServices, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """An import of many people's memories queues one for each, which may take hours."""
    model.always(Hang())
    settings = model_settings(model) | {"queue_limit": 2, "model_timeout_seconds": 600.0}
    async with start_services(**settings, reconcile=True, drain_seconds=0.1) as services:
        for user, dose in itertools.product(("ana", "cleo", "dee"), (5, 10)):
            await ask(services, "SaveMemory", user_id=user, content=f"Takes {dose} mg of Ramipril")
        waiting = "SELECT count(*) FROM jobs WHERE state IN ('queued', 'running')"
        assert rows(superuser_conninfo, waiting)[0][0] >= 2
        await submit(services, talk("hello", user="bo"), talk("hello", user="eve"))
        request = pb.SubmitTranscriptsRequest(transcripts=[talk("more")])
        await full(services, "SubmitTranscripts", request)


async def test_a_known_key_is_answered_by_a_full_queue_too(
    start_services: StartServices, model: ScriptedModel
) -> None:
    model.always(Hang())
    settings = model_settings(model) | {"queue_limit": 1, "model_timeout_seconds": 600.0}
    async with start_services(**settings, drain_seconds=0.1) as services:
        request = pb.SubmitTranscriptsRequest(transcripts=[talk("hello")], idempotency_key="one")
        first = await services.extraction.SubmitTranscripts(request)
        again = await services.extraction.SubmitTranscripts(request)
        assert [job.id for job in again.jobs] == [job.id for job in first.jobs]


async def test_a_twin_of_a_call_that_takes_the_last_room_is_answered_as_that_call(
    start_services: StartServices,
    model: ScriptedModel,
    superuser_conninfo: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its job is not stored yet when the twin asks for room."""
    monkeypatch.setattr("hitherto_extraction.queue.limit._COUNT_ALWAYS_BELOW", 0)
    model.always(Hang())
    settings = model_settings(model) | {"queue_limit": 2, "model_timeout_seconds": 600.0}
    async with (
        start_services(**settings, drain_seconds=0.1) as services,
        await psycopg.AsyncConnection.connect(superuser_conninfo) as holder,
    ):
        await submit(services, talk("hello"))
        await holder.execute("SELECT FROM users WHERE user_id = 'ana' FOR UPDATE")
        request = pb.SubmitTranscriptsRequest(
            transcripts=[talk("more", conversation="second")], idempotency_key="one"
        )
        first, twin = (
            asyncio.ensure_future(services.extraction.SubmitTranscripts(request)) for _ in range(2)
        )
        await asyncio.sleep(0.3)
        await holder.rollback()
        assert [job.id for job in (await twin).jobs] == [job.id for job in (await first).jobs]
        other = pb.SubmitTranscriptsRequest(transcripts=[talk("hello", user="bo")])
        await full(services, "SubmitTranscripts", other)


async def test_row_10_whoever_watches_a_job_is_told_that_the_service_stops(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """And does not hold the drain: it would last ten minutes."""
    model.always(StatusFault(503, retry_after="900"))
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(180):
            async with start_services(**model_settings(model), drain_seconds=600.0) as services:
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


async def test_a_job_of_an_erased_user_cannot_be_retried(
    services: Services, tenant_conninfo: str
) -> None:
    await learn(services, talk("I live in Lisbon."))
    rows(
        tenant_conninfo,
        "WITH gone AS (UPDATE users SET erased_at = now() WHERE user_id = 'ana')"
        " UPDATE jobs SET state = 'dead' RETURNING 1",
    )
    ((job_id,),) = rows(tenant_conninfo, "SELECT job_id::text FROM jobs")
    refusal = await refused(
        services, METHODS["ExtractionService/RetryJob"], pb.RetryJobRequest(job_id=job_id)
    )
    assert (refusal.code, refusal.reason) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "USER_ERASED",
    )


async def test_profile_version_tells_of_a_change_only(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = replies(
        {
            "sail": lambda r: {"new_memories": [], "profile": {"summary": "Ana sails."}},
            "again": lambda r: {"new_memories": [], "profile": {"summary": "Ana sails."}},
        }
    )
    changed = await learn(modelled, talk("I am Ana and sail"))
    same = await learn(modelled, talk("again", conversation="c2"))
    nothing = await learn(modelled, talk("hello", conversation="c3"))
    assert [each.profile_version for each in (changed, same, nothing)] == [1, 0, 0]


async def test_started_at_moves_with_the_attempts(modelled: Services, tenant_conninfo: str) -> None:
    (job_id,) = await submit(modelled, talk("hello"))
    first = await ended(modelled, job_id)
    rows(tenant_conninfo, "UPDATE jobs SET state = 'dead' RETURNING 1")
    await modelled.extraction.RetryJob(pb.RetryJobRequest(job_id=job_id))
    second = await ended(modelled, job_id)
    assert second.started_at.ToNanoseconds() > first.finished_at.ToNanoseconds()
