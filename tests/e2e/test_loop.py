"""The loop: transcripts in, memories and context out, over real ports."""

from __future__ import annotations

from datetime import UTC, datetime

from hitherto.v1 import job_pb2, search_pb2
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.learning import ended, learn, memories, submit, talk
from tests.e2e.methods import ask
from tests.scripted_model import ScriptedModel


async def test_a_fact_said_in_a_transcript_is_found_and_told(services: Services) -> None:
    said = talk("Hi, I live in Porto and I prefer short answers.", ("assistant", "Noted!"))
    job = await ended(services, (await submit(services, said))[0])
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert job.consistency_token
    found = await ask(
        services,
        "SearchMemories",
        query="Where does she live?",
        consistency_token=job.consistency_token,
    )
    assert any("Porto" in result.memory.content for result in found.results)
    scopes = [search_pb2.SEARCH_SCOPE_SUMMARIES]
    context = await ask(services, "GetContext", query="Porto", scopes=scopes)
    assert "Porto" in context.prompt_block
    # Scopes say what is searched and leave the sections alone.
    assert [result.WhichOneof("item") for result in context.relevant] == ["summary"]
    assert context.memories
    assert context.conversations


async def test_ids_of_the_greatest_length_are_accepted(modelled: Services) -> None:
    """Three ids of 256 characters of four bytes are longer than an index row."""
    longest = "\U0001d11e" * 256
    said = talk("remember canary:clef please", user=longest, conversation=longest)
    said.messages[0].id = longest
    await learn(modelled, said, said)
    found = await memories(modelled, user=longest)
    assert [m.source_message_ids for m in found] == [[longest]]
    assert modelled.model.calls["chat"] == 1


async def test_cancelled_messages_are_passed_over_and_can_be_run_again(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """A cancelled job for appended messages owns them: later jobs skip them, RetryJob runs them."""
    settings = {**model_settings(model), "extract_every": 1, "extract_debounce_seconds": 60.0}
    async with start_services(**settings) as services:
        first = await ask(
            services,
            "AppendMessages",
            conversation_id="c1",
            messages=talk("remember canary:wren please").messages,
        )
        cancelled = await ask(services, "CancelJob", job_id=first.job.id)
        assert cancelled.job.state == job_pb2.JOB_STATE_CANCELLED
        nothing = await ask(services, "EndConversation", conversation_id="c1")
        assert nothing.job.id == first.job.id
        assert model.calls["chat"] == 0
        await ask(services, "RetryJob", job_id=first.job.id)
        job = await ended(services, first.job.id)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
        assert job.result.memories_created == 1


async def test_ending_or_sending_again_does_not_move_a_conversation_in_time(
    services: Services,
) -> None:
    old = talk("I live in Porto.", conversation="old", at=datetime(2020, 5, 1, 10, tzinfo=UTC))
    new = talk("I work as a baker.", conversation="new", at=datetime(2021, 5, 1, 10, tzinfo=UTC))
    await learn(services, old, new, old)
    await ask(services, "EndConversation", conversation_id="old")
    listed = await ask(services, "ListConversations")
    assert [summary.conversation_id for summary in listed.conversations] == ["new", "old"]
