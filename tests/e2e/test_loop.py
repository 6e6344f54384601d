"""The loop: transcripts in, memories and context out, over real ports."""

from __future__ import annotations

import grpc
import pytest

from recollect.v1 import (
    conversation_pb2,
    extraction_service_pb2,
    job_pb2,
    retrieval_service_pb2,
)
from tests.e2e.conftest import Services
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
