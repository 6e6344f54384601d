"""The loop: transcripts in, memories and context out, over real ports."""

from __future__ import annotations

import grpc
import pytest

from hitherto.v1 import (
    conversation_pb2,
    extraction_service_pb2,
    job_pb2,
    retrieval_service_pb2,
    search_pb2,
)
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.scripted_model import ScriptedModel


def transcript(
    *lines: str, user: str = "ana", conversation: str = "c1"
) -> conversation_pb2.Transcript:
    """A transcript of alternating user and assistant messages."""
    roles = [conversation_pb2.ROLE_USER, conversation_pb2.ROLE_ASSISTANT]
    return conversation_pb2.Transcript(
        user_id=user,
        conversation_id=conversation,
        messages=[
            conversation_pb2.Message(id=f"m{i}", role=roles[i % 2], content=line)
            for i, line in enumerate(lines)
        ],
    )


async def ended(services: Services, job_id: str) -> job_pb2.Job:
    """The job once it has ended."""
    job = job_pb2.Job()
    async for response in services.extraction.WatchJob(
        extraction_service_pb2.WatchJobRequest(job_id=job_id)
    ):
        job = response.job
    return job


async def test_a_fact_said_in_a_transcript_is_found_and_told(services: Services) -> None:
    accepted = await services.extraction.SubmitTranscripts(
        extraction_service_pb2.SubmitTranscriptsRequest(
            transcripts=[transcript("Hi, I live in Porto and I prefer short answers.", "Noted!")]
        )
    )
    job = await ended(services, accepted.jobs[0].id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert job.consistency_token
    found = await services.retrieval.SearchMemories(
        retrieval_service_pb2.SearchMemoriesRequest(
            user_id="ana", query="Where does she live?", consistency_token=job.consistency_token
        )
    )
    assert any("Porto" in result.memory.content for result in found.results)
    context = await services.retrieval.GetContext(
        retrieval_service_pb2.GetContextRequest(user_id="ana")
    )
    assert "Porto" in context.prompt_block


async def test_memories_carry_their_source_messages(
    modelled: Services, model: ScriptedModel
) -> None:
    accepted = await modelled.extraction.SubmitTranscripts(
        extraction_service_pb2.SubmitTranscriptsRequest(
            transcripts=[transcript("hello", "hi", "remember canary:heron please")]
        )
    )
    job = await ended(modelled, accepted.jobs[0].id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert job.result.memories_created == 1
    listed = await modelled.retrieval.ListMemories(
        retrieval_service_pb2.ListMemoriesRequest(user_id="ana")
    )
    assert [m.source_message_ids for m in listed.memories] == [["m2"]]
    assert "heron" in listed.memories[0].content
    assert model.calls["chat"] == 1


async def test_unknown_job_is_not_found(services: Services) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await services.extraction.GetJob(
            extraction_service_pb2.GetJobRequest(job_id="01890000-0000-7000-8000-000000000000")
        )
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


async def test_ids_of_the_greatest_length_are_accepted(
    modelled: Services, model: ScriptedModel
) -> None:
    """Three ids of 256 characters of four bytes are longer than an index row."""
    longest = "\U0001d11e" * 256
    said = transcript("remember canary:clef please", user=longest, conversation=longest)
    said.messages[0].id = longest
    for _ in range(2):
        accepted = await modelled.extraction.SubmitTranscripts(
            extraction_service_pb2.SubmitTranscriptsRequest(transcripts=[said])
        )
        job = await ended(modelled, accepted.jobs[0].id)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    listed = await modelled.retrieval.ListMemories(
        retrieval_service_pb2.ListMemoriesRequest(user_id=longest)
    )
    assert [m.source_message_ids for m in listed.memories] == [[longest]]
    assert model.calls["chat"] == 1


async def test_cancelled_messages_are_passed_over_and_can_be_run_again(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """A cancelled job for appended messages owns them: later jobs skip them, RetryJob runs them."""
    append = extraction_service_pb2.AppendMessagesRequest
    async with start_services(
        **{**model_settings(model), "extract_every": 1, "extract_debounce_seconds": 60.0}
    ) as services:
        first = await services.extraction.AppendMessages(
            append(
                user_id="ana",
                conversation_id="c1",
                messages=transcript("remember canary:wren please").messages,
            )
        )
        cancelled = await services.extraction.CancelJob(
            extraction_service_pb2.CancelJobRequest(job_id=first.job.id)
        )
        assert cancelled.job.state == job_pb2.JOB_STATE_CANCELLED
        nothing = await services.extraction.EndConversation(
            extraction_service_pb2.EndConversationRequest(user_id="ana", conversation_id="c1")
        )
        assert nothing.job.id == first.job.id
        assert model.calls["chat"] == 0
        await services.extraction.RetryJob(
            extraction_service_pb2.RetryJobRequest(job_id=first.job.id)
        )
        job = await ended(services, first.job.id)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
        assert job.result.memories_created == 1


async def test_ending_or_sending_again_does_not_move_a_conversation_in_time(
    services: Services,
) -> None:
    old = transcript("I live in Porto.", conversation="old")
    old.messages[0].created_at.FromJsonString("2020-05-01T10:00:00Z")
    new = transcript("I work as a baker.", conversation="new")
    new.messages[0].created_at.FromJsonString("2021-05-01T10:00:00Z")
    for said in (old, new, old):
        accepted = await services.extraction.SubmitTranscripts(
            extraction_service_pb2.SubmitTranscriptsRequest(transcripts=[said])
        )
        await ended(services, accepted.jobs[0].id)
    await services.extraction.EndConversation(
        extraction_service_pb2.EndConversationRequest(user_id="ana", conversation_id="old")
    )
    listed = await services.retrieval.ListConversations(
        retrieval_service_pb2.ListConversationsRequest(user_id="ana")
    )
    assert [summary.conversation_id for summary in listed.conversations] == ["new", "old"]


async def test_scopes_say_what_is_searched_and_leave_the_sections_alone(
    services: Services,
) -> None:
    accepted = await services.extraction.SubmitTranscripts(
        extraction_service_pb2.SubmitTranscriptsRequest(
            transcripts=[transcript("I live in Porto.")]
        )
    )
    await ended(services, accepted.jobs[0].id)
    context = await services.retrieval.GetContext(
        retrieval_service_pb2.GetContextRequest(
            user_id="ana", query="Porto", scopes=[search_pb2.SEARCH_SCOPE_SUMMARIES]
        )
    )
    assert [result.WhichOneof("item") for result in context.relevant] == ["summary"]
    assert context.memories
    assert context.conversations
