"""Transcripts, appended messages and their jobs as a client sees them: requirements B1 to B5."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from hitherto.v1 import conversation_pb2, job_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_extraction.handlers.extraction import ExtractionHandlers
from hitherto_shared.identifiers import uuid7
from tests.e2e import learning
from tests.e2e.conftest import Services, StartServices
from tests.e2e.methods import METHODS, OFFERED, ask, call, insist
from tests.e2e.requests import places, valid
from tests.e2e.sessions import refusal_of
from tests.scripted_model import CONTENT_FAULTS, ChatAnswer, Hang, ScriptedModel, canary_script
from tests.waiting import eventually

BOUND = 120.0
USER, ASSISTANT = conversation_pb2.ROLE_USER, conversation_pb2.ROLE_ASSISTANT


def message(content: str, message_id: str = "", *, role: int = USER) -> conversation_pb2.Message:
    """A message; without an id unless one is given."""
    return conversation_pb2.Message(id=message_id, role=role, content=content)  # type: ignore[arg-type]


def transcript(
    first: int = 1, last: int = 2, *, user: str = "ana", conversation: str = "c1"
) -> conversation_pb2.Transcript:
    """Messages `m<first>`..`m<last>`, each with a canary of its own."""
    return conversation_pb2.Transcript(
        user_id=user,
        conversation_id=conversation,
        messages=[message(f"canary:w{n}", f"m{n}") for n in range(first, last + 1)],
    )


async def submit(
    services: Services, *transcripts: conversation_pb2.Transcript, key: str = ""
) -> list[job_pb2.Job]:
    accepted = await ask(
        services, "SubmitTranscripts", transcripts=transcripts, idempotency_key=key
    )
    assert accepted.consistency_token
    return list(accepted.jobs)


async def watch(services: Services, job_id: str) -> list[job_pb2.Job]:
    """Everything WatchJob says until the job has ended."""
    seen = []
    async with asyncio.timeout(BOUND):
        async for response in services.extraction.WatchJob(pb.WatchJobRequest(job_id=job_id)):
            seen.append(response.job)
    return seen


async def reached(services: Services, job_id: str, state: int) -> job_pb2.Job:
    """The job once it is in a state."""
    async with asyncio.timeout(BOUND):
        call = services.extraction.WatchJob(pb.WatchJobRequest(job_id=job_id))
        async for response in call:
            if response.job.state == state:
                call.cancel()
                return response.job
    raise AssertionError("the job ended in another state")


async def memories(services: Services) -> list[str]:
    """What is known about Ana."""
    return sorted(memory.content for memory in await learning.memories(services))


def told(n: int) -> str:
    """The memory of message `m<n>`."""
    return f"The user mentioned canary:w{n}."


async def refusal(call: Awaitable[Any]) -> tuple[grpc.StatusCode, str, list[str]]:
    """Status, ErrorInfo reason and violated fields of a call that is refused."""
    refused = await refusal_of(call)
    return refused.code, refused.reason, list(refused.fields)


async def test_an_overlapping_transcript_is_extracted_once(modelled: Services) -> None:
    """faults.md row 38: ten messages in both; the model sees each message once."""
    first, second = transcript(1, 12), transcript(3, 14)
    jobs = await submit(modelled, first) + await submit(modelled, second)
    for job in jobs:
        assert (await watch(modelled, job.id))[-1].state == job_pb2.JOB_STATE_SUCCEEDED
    assert [
        [line.content for line in request.messages] for request in modelled.model.chat_requests
    ] == [
        [f"canary:w{n}" for n in range(1, 13)],
        ["canary:w13", "canary:w14"],
    ]
    assert await memories(modelled) == sorted(told(n) for n in range(1, 15))
    again = await submit(modelled, second)
    assert again[0].id == jobs[1].id
    assert modelled.model.calls["chat"] == 2


async def test_messages_without_ids_get_ones_that_repeat(modelled: Services) -> None:
    """Contract: derived from what was sent, with an ordinal among equals; NFC before hashing."""
    texts = ["có", "canary:w1", "có", "👍🏽", "có"]
    request = pb.AppendMessagesRequest(
        user_id="ana", conversation_id="c1", messages=[message(text) for text in texts]
    )
    first = await modelled.extraction.AppendMessages(request)
    assert len(set(first.message_ids)) == first.pending_messages == 5
    decomposed = pb.AppendMessagesRequest(
        user_id="ana",
        conversation_id="c1",
        messages=[message(text.replace("ó", "o\u0301")) for text in texts],
    )
    again = await modelled.extraction.AppendMessages(decomposed)
    assert list(again.message_ids) == list(first.message_ids)
    assert again.pending_messages == 5
    other = pb.AppendMessagesRequest(
        user_id="ana",
        conversation_id="c1",
        messages=[message("có", role=ASSISTANT), *(message("có") for _ in range(4))],
    )
    third = await modelled.extraction.AppendMessages(other)
    assert list(third.message_ids[1:4]) == [first.message_ids[i] for i in (0, 2, 4)]
    assert third.pending_messages == 7


async def test_one_key_a_hundred_times_at_once_makes_one_job(services: Services) -> None:
    """faults.md row 36, over the wire."""
    # On a busy machine some are told to come back, which whoever sends a key may do.
    answers = await asyncio.gather(
        *(insist(lambda: submit(services, transcript(), key="k1")) for _ in range(100))
    )
    assert len({job.id for (job,) in answers}) == 1
    listed = await ask(services, "ListJobs")
    assert listed.total_size == 1
    # B4: the first answer again, as the job is now; another body is ALREADY_EXISTS.
    await watch(services, listed.jobs[0].id)
    (again,) = await submit(services, transcript(), key="k1")
    assert (again.id, again.state) == (listed.jobs[0].id, job_pb2.JOB_STATE_SUCCEEDED)
    code, reason, _ = await refusal(submit(services, transcript(1, 3), key="k1"))
    assert (code, reason) == (grpc.StatusCode.ALREADY_EXISTS, "IDEMPOTENCY_KEY_REUSED")


def acted(reply: Message) -> str:
    """What a reply says was done, without what a repeat is not told and how far its job is."""
    kept = json_format.MessageToDict(reply)
    for name in ("consistencyToken", "secret"):
        kept.pop(name, None)
    for job in [*kept.get("jobs", []), *([kept["job"]] if "job" in kept else [])]:
        for name in job.keys() - {"id", "kind", "userId"}:
            del job[name]
    return json.dumps(kept, sort_keys=True)


async def test_row_36_a_key_used_by_many_at_once_is_one_act_of_any_call(services: Services) -> None:
    """Who heard no answer asks again, maybe while the first request is still at work."""

    async def answer(rpc: str, key: str, **fields: Any) -> Any:
        method = METHODS[rpc]
        request = valid(method)
        request.MergeFrom(method.request(idempotency_key=key, **fields))
        (reply,) = await insist(lambda: call(services, method, request))
        return reply

    saved = (await answer("MemoryService/SaveMemory", "")).memory.id
    action = await answer("SessionService/AddPendingAction", "")
    pending = action.pending_action.id
    read = await answer("ExtractionService/IngestDocuments", "")
    hook = await answer("MaintenanceService/CreateWebhook", "")
    spoken = [message("Is it good for me?", "m0"), message("It is.", "m1", role=ASSISTANT)]
    await answer("ExtractionService/AppendMessages", "", messages=spoken)
    acts: dict[str, dict[str, Any]] = {
        "MemoryService/SaveMemory": {"tags": ["tea"]},
        "MemoryService/UpdateMemory": {"memory_id": saved, "memory": {"content": "Likes coffee."}},
        "MemoryService/ForgetMemory": {"memory_id": saved},
        "MemoryService/RestoreMemory": {"memory_id": saved},
        "MemoryService/UpdateProfile": {},
        "MemoryService/RecordFeedback": {},
        "SessionService/UpdateSession": {},
        "SessionService/AddPendingAction": {},
        "SessionService/ResolvePendingAction": {"pending_action_id": pending},
        "ExtractionService/SubmitTranscripts": {},
        "ExtractionService/AppendMessages": {},
        "ExtractionService/EndConversation": {},
        "ExtractionService/IngestDocuments": {},
        "ExtractionService/DeleteDocument": {"document_id": read.document_ids[0]},
        "MaintenanceService/Consolidate": {},
        "MaintenanceService/RunDecay": {},
        "MaintenanceService/RunRetention": {},
        "MaintenanceService/RollbackSource": {},
        "MaintenanceService/CreateWebhook": {},
        "MaintenanceService/DeleteWebhook": {"webhook_id": hook.webhook.id},
        "PrivacyService/UpdateUserSettings": {},
        "PrivacyService/DeleteConversation": {},
        "PrivacyService/ClearMemories": {},
        "PrivacyService/EraseUser": {},
        "PrivacyService/ReinstateUser": {},
    }
    assert acts.keys() | OTHERWISE == {
        method.name
        for method in OFFERED
        if list(places(method, lambda field: field.name == "idempotency_key"))
    }
    for rpc, fields in acts.items():
        replies = await asyncio.gather(*(answer(rpc, rpc, **fields) for _ in range(6)))
        assert len({acted(reply) for reply in replies}) == 1, (rpc, replies)


OTHERWISE = {
    # Each item of a stream has a key of its own, and an import is continued under its key.
    "MemoryService/StreamMemories",
    "ExtractionService/StreamTranscripts",
    "PrivacyService/ImportUser",
    # Of what a test must first let happen: their own tests repeat them.
    "MemoryService/ReviewMemory",
    "ExtractionService/RetryJob",
    "ExtractionService/CancelJob",
    "MaintenanceService/UndoConsolidation",
    "MaintenanceService/RetryWebhookDelivery",
    "MaintenanceService/Reembed",
}


async def test_a_watch_shows_the_way_and_ends_with_the_job(modelled: Services) -> None:
    """B5: states in order, the last one final with result and token; an ended job at once."""
    modelled.model.delay = 0.2
    (job,) = await submit(modelled, transcript())
    seen = await watch(modelled, job.id)
    order = [job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING, job_pb2.JOB_STATE_SUCCEEDED]
    positions = [order.index(each.state) for each in seen]
    assert positions == sorted(positions)
    assert job_pb2.JOB_STATE_RUNNING in [each.state for each in seen]
    assert seen[-1].state == job_pb2.JOB_STATE_SUCCEEDED
    assert seen[-1].consistency_token
    assert seen[-1].result.memories_created == 2
    (again,) = await watch(modelled, job.id)
    assert again.state == job_pb2.JOB_STATE_SUCCEEDED


async def test_a_watch_the_client_leaves_leaves_nothing_behind(
    start_services: StartServices, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """faults.md row 51: no task of the server waits for a client that has gone."""
    watching: list[str] = []
    watched = ExtractionHandlers.WatchJob

    async def counted(self: Any, request: Any, context: Any) -> AsyncIterator[Any]:
        watching.append(request.job_id)
        try:
            async for response in watched(self, request, context):
                yield response
        finally:
            watching.remove(request.job_id)

    monkeypatch.setattr(ExtractionHandlers, "WatchJob", counted)
    model.always(Hang())
    async with start_services(model, drain_seconds=0.2) as services:
        (job,) = await submit(services, transcript())
        await reached(services, job.id, job_pb2.JOB_STATE_RUNNING)
        await eventually(lambda: job.id not in watching)
        calls = [services.extraction.WatchJob(pb.WatchJobRequest(job_id=job.id)) for _ in range(20)]
        for call in calls:
            await call.read()
        assert watching.count(job.id) == 20
        for call in calls:
            call.cancel()
        await eventually(lambda: job.id not in watching)
        got = await ask(services, "GetJob", job_id=job.id)
        assert got.job.state == job_pb2.JOB_STATE_RUNNING


async def test_unusable_replies_end_dead_listed_and_replayable(modelled: Services) -> None:
    """Promise 5, faults.md row 26: never "nothing to remember"; RetryJob runs the range again."""
    # Two questions an attempt, four attempts.
    fault = ChatAnswer(CONTENT_FAULTS["prose_with_braces"])
    modelled.model.queue(*[fault] * 8)
    (job,) = await submit(modelled, transcript())
    seen = await watch(modelled, job.id)
    assert seen[-1].state == job_pb2.JOB_STATE_DEAD
    assert (seen[-1].attempt, seen[-1].max_attempts) == (4, 4)
    assert seen[-1].error.startswith("MODEL_UNUSABLE: ")
    assert "canary" not in seen[-1].error
    assert modelled.model.calls["chat"] == 8
    assert await memories(modelled) == []
    # The range that failed holds up nothing that comes after it.
    (later,) = await submit(modelled, transcript(1, 4))
    assert (await watch(modelled, later.id))[-1].state == job_pb2.JOB_STATE_SUCCEEDED
    assert await memories(modelled) == [told(3), told(4)]
    dead = [job_pb2.JOB_STATE_DEAD]
    listed = await ask(modelled, "ListJobs", user_id="", states=dead)
    assert [(each.id, each.error) for each in listed.jobs] == [(job.id, seen[-1].error)]
    retried = await ask(modelled, "RetryJob", job_id=job.id)
    assert retried.job.state == job_pb2.JOB_STATE_QUEUED
    assert (await watch(modelled, job.id))[-1].state == job_pb2.JOB_STATE_SUCCEEDED
    assert await memories(modelled) == [told(n) for n in range(1, 5)]
    # Those that are retried together have all of their attempts, too.
    modelled.model.queue(*[fault] * 8)
    (job,) = await submit(modelled, transcript(5, 6))
    assert (await watch(modelled, job.id))[-1].attempt == 4
    # One more bad attempt, then good ones.
    modelled.model.queue(*[fault] * 2)
    again = await ask(modelled, "RetryJob", filter=pb.RetryFilter(states=dead))
    assert again.retried == 1
    last = (await watch(modelled, job.id))[-1]
    assert (last.state, last.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)


async def test_jobs_can_be_cancelled_while_they_wait_and_while_they_run(modelled: Services) -> None:
    """B5: nothing of a cancelled job is written; its range can be run again."""
    go = asyncio.Event()

    async def slow(request: Any) -> ChatAnswer:
        await go.wait()
        return canary_script(request)

    modelled.model.script = slow
    (running,) = await submit(modelled, transcript(1, 2))
    (waiting,) = await submit(modelled, transcript(3, 4))
    await modelled.model.called(1)
    for job in (waiting, running):
        cancelled = await ask(modelled, "CancelJob", job_id=job.id)
        assert cancelled.job.state == job_pb2.JOB_STATE_CANCELLED
        assert cancelled.job.error == "CANCELLED_BY_CALLER"
    go.set()
    # Once a later job of the user is through, the cancelled one's worker has had its turn too.
    (third,) = await submit(modelled, transcript(5, 6))
    assert (await watch(modelled, third.id))[-1].state == job_pb2.JOB_STATE_SUCCEEDED
    assert await memories(modelled) == [told(5), told(6)]
    await ask(modelled, "RetryJob", job_id=running.id)
    assert (await watch(modelled, running.id))[-1].state == job_pb2.JOB_STATE_SUCCEEDED
    assert await memories(modelled) == [told(n) for n in (1, 2, 5, 6)]


async def test_only_what_fits_the_state_can_be_done(services: Services) -> None:
    """B5: FAILED_PRECONDITION JOB_STATE_CONFLICT; a job nobody has is NOT_FOUND."""
    (job,) = await submit(services, transcript())
    await watch(services, job.id)
    extraction = services.extraction
    conflict = (grpc.StatusCode.FAILED_PRECONDITION, "JOB_STATE_CONFLICT")
    for late in (
        extraction.RetryJob(pb.RetryJobRequest(job_id=job.id)),
        extraction.CancelJob(pb.CancelJobRequest(job_id=job.id)),
    ):
        assert (await refusal(late))[:2] == conflict
    nobody = str(uuid7())
    unknown: list[Awaitable[Any]] = [
        extraction.RetryJob(pb.RetryJobRequest(job_id=nobody)),
        extraction.CancelJob(pb.CancelJobRequest(job_id=nobody)),
        extraction.WatchJob(pb.WatchJobRequest(job_id=nobody)).read(),
    ]
    for each in unknown:
        assert (await refusal(each))[:2] == (grpc.StatusCode.NOT_FOUND, "JOB_NOT_FOUND")


async def test_appended_messages_are_extracted_by_themselves(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """B2: after N messages, on EndConversation, and after a silence."""
    idle = {"extract_idle_minutes": 0.02, "schedule_idle": "* * * * *"}
    async with start_services(model, **idle, extract_every=3) as services:

        async def append(number: int, conversation: str) -> pb.AppendMessagesResponse:
            request = pb.AppendMessagesRequest(user_id="ana", conversation_id=conversation)
            request.messages.append(message(f"canary:w{number}", f"m{number}"))
            return await services.extraction.AppendMessages(request)

        answers = [await append(n, "c1") for n in (1, 2, 3)]
        assert [each.HasField("job") for each in answers[:2]] == [False, False]
        assert (await watch(services, answers[2].job.id))[-1].state == job_pb2.JOB_STATE_SUCCEEDED
        await append(4, "c2")
        ended = await ask(services, "EndConversation", conversation_id="c2")
        assert (await watch(services, ended.job.id))[-1].state == job_pb2.JOB_STATE_SUCCEEDED
        await append(5, "c3")
        async with asyncio.timeout(BOUND):
            while told(5) not in await memories(services):  # noqa: ASYNC110 - no job to watch yet
                await asyncio.sleep(0.05)
        assert await memories(services) == [told(n) for n in range(1, 6)]
        nowhere = pb.EndConversationRequest(user_id="ana", conversation_id="nowhere")
        code, reason, _ = await refusal(services.extraction.EndConversation(nowhere))
        assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "CONVERSATION_NOT_FOUND")


async def test_jobs_are_listed_newest_first_by_filter_and_page(services: Services) -> None:
    """B5: ListJobs pages are stable and end."""
    jobs = [
        (await submit(services, transcript(user=user, conversation=f"c{n}")))[0]
        for n in range(3)
        for user in ("ana", "bob")
    ]
    for job in jobs:
        await watch(services, job.id)
    found: list[str] = []
    token = ""
    while token or not found:
        page = await ask(services, "ListJobs", user_id="", page_size=4, page_token=token)
        assert page.total_size == 6
        found += [job.id for job in page.jobs]
        token = page.next_page_token
    assert found == [job.id for job in reversed(jobs)]
    succeeded = [job_pb2.JOB_STATE_SUCCEEDED]
    of_bob = await ask(services, "ListJobs", user_id="bob", conversation_id="c1", states=succeeded)
    assert [(job.id, job.state) for job in of_bob.jobs] == [(jobs[3].id, succeeded[0])]
