"""What is stored is visible before a job has read it (D12, D14), or if none ever will (H1)."""

from __future__ import annotations

from typing import Any

import pytest

from hitherto.v1 import conversation_pb2, job_pb2, search_pb2
from hitherto.v1 import extraction_service_pb2 as writing
from tests.e2e.conftest import Services
from tests.e2e.learning import memories, talk
from tests.e2e.methods import ask
from tests.e2e.privacy import choose

MESSAGES = search_pb2.SEARCH_SCOPE_MESSAGES


async def append(
    services: Services, *texts: str, user: str = "ana"
) -> writing.AppendMessagesResponse:
    messages = [
        conversation_pb2.Message(role=conversation_pb2.ROLE_USER, content=text) for text in texts
    ]
    return await services.extraction.AppendMessages(
        writing.AppendMessagesRequest(user_id=user, conversation_id="c1", messages=messages)
    )


async def words_found(services: Services, query: str, token: str, **fields: Any) -> list[str]:
    asked = {"query": query, "scopes": [MESSAGES], "consistency_token": token, **fields}
    found = await ask(services, "SearchMemories", **asked)
    return [each.message.content for each in found.results]


async def test_d12_an_appended_message_is_found_by_its_words_at_once(services: Services) -> None:
    await append(services, "The quinces are ripe.", user="bob")
    reply = await append(services, "The medlars are ripe.", "Tôi trồng cây mộc qua.")
    assert not reply.HasField("job")
    assert reply.pending_messages == 2
    token = reply.consistency_token
    assert await words_found(services, "medlars", token) == ["The medlars are ripe."]
    assert await words_found(services, "moc qua", token) == ["Tôi trồng cây mộc qua."]
    assert await words_found(services, "quinces", token) == []
    # Sent again it is not indexed again.
    again = await append(services, "The medlars are ripe.", "Tôi trồng cây mộc qua.")
    assert again.pending_messages == 2
    token = again.consistency_token
    everything = await words_found(services, "medlars", token, min_relevance=0)
    assert everything == ["The medlars are ripe.", "Tôi trồng cây mộc qua."]


async def test_d14_a_conversation_is_listed_from_its_first_message_on(services: Services) -> None:
    await append(services, "The quinces are ripe.", user="bob")
    reply = await append(services, "  The medlars\n are ripe.  ")
    token = reply.consistency_token
    listed = await ask(services, "ListConversations", consistency_token=token)
    (summary,) = listed.conversations
    assert summary.conversation_id == "c1"
    assert summary.title.strip() == "The medlars are ripe."
    assert not summary.summary
    assert summary.message_count == 1
    assert summary.outcome == conversation_pb2.OUTCOME_ONGOING
    assert listed.total_size == 1
    recent = await ask(
        services, "GetRecentConversations", include_messages=True, consistency_token=token
    )
    (conversation,) = recent.conversations
    assert [message.content for message in conversation.messages] == ["  The medlars\n are ripe.  "]
    outcomes = [conversation_pb2.OUTCOME_RESOLVED]
    resolved = await ask(services, "ListConversations", outcomes=outcomes, consistency_token=token)
    assert not resolved.conversations
    assert resolved.total_size == 0


@pytest.mark.parametrize("how", ["append", "submit"])
async def test_h1_with_learning_off_messages_are_stored_and_found_and_teach_nothing(
    services: Services, how: str
) -> None:
    await choose(services, learning_enabled=False)
    if how == "append":
        reply = await append(services, "I live in Porto.")
        job, token = reply.job, reply.consistency_token
    else:
        transcripts = [talk("I live in Porto.")]
        submitted = await ask(services, "SubmitTranscripts", transcripts=transcripts)
        job, token = submitted.jobs[0], submitted.consistency_token
    assert job.state == job_pb2.JOB_STATE_CANCELLED
    assert job.error.startswith("LEARNING_DISABLED")
    assert await words_found(services, "Porto", token) == ["I live in Porto."]
    # Switched on again, what was said meanwhile stays unlearnt.
    await choose(services, learning_enabled=True)
    ended = await ask(services, "EndConversation", conversation_id="c1")
    assert ended.job.id == job.id
    assert await memories(services) == []
