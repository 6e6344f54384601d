"""A search without a query lists what is stored, of every kind (D3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hitherto.v1 import conversation_pb2, document_pb2, search_pb2
from hitherto.v1 import extraction_service_pb2 as writing
from hitherto.v1 import memory_service_pb2 as saving
from hitherto.v1 import retrieval_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.handing_over import taken_in
from tests.e2e.learning import ended

MEMORIES = search_pb2.SEARCH_SCOPE_MEMORIES
MESSAGES = search_pb2.SEARCH_SCOPE_MESSAGES
SUMMARIES = search_pb2.SEARCH_SCOPE_SUMMARIES
DOCUMENTS = search_pb2.SEARCH_SCOPE_DOCUMENTS
THEN = datetime(2026, 5, 1, 9, tzinfo=UTC)


async def talk(services: Services, conversation: str, *texts: str, user: str = "ana") -> None:
    messages = []
    for minute, text in enumerate(texts):
        message = conversation_pb2.Message(
            role=conversation_pb2.ROLE_USER, content=text, id=f"m{minute}"
        )
        message.created_at.FromDatetime(THEN + timedelta(minutes=minute))
        messages.append(message)
    submitted = await services.extraction.SubmitTranscripts(
        writing.SubmitTranscriptsRequest(
            transcripts=[
                conversation_pb2.Transcript(
                    user_id=user, conversation_id=conversation, messages=messages
                )
            ]
        )
    )
    await ended(services, submitted.jobs[0].id)


async def listed(
    services: Services, *scopes: search_pb2.SearchScope.ValueType, **fields: object
) -> pb.SearchMemoriesResponse:
    request = pb.SearchMemoriesRequest(user_id="ana", scopes=scopes)
    for name, value in fields.items():
        setattr(request, name, value)
    return await services.retrieval.SearchMemories(request)


@pytest.fixture
async def stored(services: Services) -> None:
    # Equal ids of somebody else in the same tenant.
    await talk(services, "c1", "Quince marmalade.", user="bob")
    await talk(services, "c1", "Plain words, one.", "Plain words, two.", "Plain words, three.")
    await taken_in(
        services,
        document_pb2.Document(source_type="gdrive", source_id="d", title="Roof", content="Tiles."),
    )
    await services.memory.SaveMemory(
        saving.SaveMemoryRequest(user_id="ana", content="The user owns a kiln.", importance=0.9)
    )


@pytest.mark.usefixtures("stored")
async def test_d3_messages_are_listed_newest_first(services: Services) -> None:
    found = await listed(services, MESSAGES)
    assert [each.message.content for each in found.results] == [
        "Plain words, three.",
        "Plain words, two.",
        "Plain words, one.",
    ]
    assert found.candidates_total == 3
    limited = await listed(services, MESSAGES, limit=2)
    assert len(limited.results) == 2
    assert limited.candidates_total == 3


@pytest.mark.usefixtures("stored")
async def test_d3_every_kind_is_listed_memories_first(services: Services) -> None:
    found = await listed(services, MEMORIES, MESSAGES, SUMMARIES, DOCUMENTS)
    kinds = [str(each.WhichOneof("item")) for each in found.results]
    assert kinds[0] == "memory"
    assert found.results[0].memory.content == "The user owns a kiln."
    assert sorted(kinds[1:]) == ["document_chunk", "message", "message", "message", "summary"]
    assert found.candidates_total == 6
    assert (await listed(services, SUMMARIES)).results[0].summary.conversation_id == "c1"
    (document,) = (await listed(services, DOCUMENTS)).results
    assert document.document_chunk.title == "Roof"
    assert not document.score


@pytest.mark.usefixtures("stored")
async def test_d8_filters_hold_without_a_query(services: Services) -> None:
    assert not (await listed(services, MESSAGES, conversation_id="other")).results
    assert not (await listed(services, MESSAGES, SUMMARIES, min_score=0.1)).results
    request = pb.SearchMemoriesRequest(user_id="ana", scopes=[MESSAGES])
    request.created_before.FromDatetime(THEN + timedelta(seconds=90))
    found = await services.retrieval.SearchMemories(request)
    assert [each.message.content for each in found.results] == [
        "Plain words, two.",
        "Plain words, one.",
    ]
