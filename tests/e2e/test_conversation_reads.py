"""Conversations with their messages, suggestions, entities and profiles as readers see them
(D7, D14, D15, E3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hitherto.v1 import (
    conversation_pb2,
    entity_pb2,
    retrieval_service_pb2,
)
from tests.e2e.conftest import Services
from tests.e2e.learning import learn, talk
from tests.e2e.methods import ask
from tests.e2e.sealing import change_profile
from tests.e2e.sessions import refusal_of
from tests.integration.retrieval.seed import Fact, remember
from tests.scripted_model import ChatAnswer, ChatRequest

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
pb = retrieval_service_pb2


async def test_a_conversation_with_its_last_messages(services: Services) -> None:
    """D14: in the order they were said, with the context items of the answers."""
    transcript = conversation_pb2.Transcript(user_id="ana", conversation_id="c1")
    for number in range(12):
        message = transcript.messages.add(
            id=f"m{number}",
            role=conversation_pb2.ROLE_ASSISTANT if number % 2 else conversation_pb2.ROLE_USER,
            content=f"言葉 {number}",
        )
        message.created_at.FromDatetime(NOON + timedelta(minutes=number))
    transcript.messages[11].context_items.add(id="item-1", relevance=0.75)
    await learn(services, transcript)
    found = await ask(services, "GetConversation", conversation_id="c1")
    assert [message.id for message in found.messages] == [f"m{n}" for n in range(2, 12)]
    assert found.messages[-1].context_items[0].relevance == 0.75
    assert list(found.messages[-1].context_item_ids) == ["item-1"]
    assert found.messages[0].created_at.ToDatetime(UTC) == NOON + timedelta(minutes=2)
    assert (found.summary.message_count, found.summary.conversation_id) == (12, "c1")


async def test_a_conversation_back_to_its_beginning(services: Services) -> None:
    """The messages before a named one, of this conversation only; another's id finds nothing."""
    said = [f"lời {number}" for number in range(7)]
    for user, conversation in (("ana", "c1"), ("ana", "c2"), ("bea", "c1")):
        messages = [
            {
                "id": f"{user}-{conversation}-{number}",
                "role": conversation_pb2.ROLE_USER,
                "content": f"{content} {user} {conversation}",
            }
            for number, content in enumerate(said)
        ]
        told = {"user_id": user, "conversation_id": conversation, "messages": messages}
        await ask(services, "AppendMessages", **told)
    asked = pb.GetConversationRequest(user_id="ana", conversation_id="c1", message_limit=3)
    pages = []
    while True:
        found = await services.retrieval.GetConversation(asked)
        pages.append([message.content for message in found.messages])
        if len(found.messages) < 3:
            break
        asked.before_message_id = found.messages[0].id
    expected = [f"{content} ana c1" for content in said]
    assert pages == [expected[4:], expected[1:4], expected[:1]]
    asked.before_message_id = "ana-c1-0"
    assert not (await services.retrieval.GetConversation(asked)).messages
    for foreign in ("ana-c2-6", "bea-c1-6", "nobody"):
        asked.before_message_id = foreign
        refusal = await refusal_of(services.retrieval.GetConversation(asked))
        assert refusal.reason == "MESSAGE_NOT_FOUND"


async def test_a_conversation_that_nobody_summed_up_yet(services: Services) -> None:
    """Messages are there at once; title and words come with the first extraction."""
    hello = conversation_pb2.Message(role=conversation_pb2.ROLE_USER, content="Xin chào!")
    await ask(services, "AppendMessages", conversation_id="chat", messages=[hello])
    found = await ask(services, "GetConversation", conversation_id="chat")
    assert [message.content for message in found.messages] == ["Xin chào!"]
    assert found.summary.title == "Xin chào!"
    refusal = await refusal_of(
        ask(services, "GetConversation", user_id="bea", conversation_id="chat")
    )
    assert refusal.reason == "CONVERSATION_NOT_FOUND"


async def test_recent_conversations_with_and_without_messages(services: Services) -> None:
    """D14: five of them, those active last first, twenty messages of each if asked for."""
    for number in range(6):
        await learn(
            services,
            talk(
                *(f"word {number} {n}" for n in range(22 if number == 5 else 2)),
                conversation=f"c{number}",
                at=NOON + timedelta(hours=number),
            ),
        )
    bare = await ask(services, "GetRecentConversations")
    assert [c.summary.conversation_id for c in bare.conversations] == ["c5", "c4", "c3", "c2", "c1"]
    assert not any(c.messages for c in bare.conversations)
    full = await ask(services, "GetRecentConversations", limit=2, include_messages=True)
    assert [len(c.messages) for c in full.conversations] == [20, 2]
    assert full.conversations[0].messages[-1].content == "word 5 21"


async def test_suggestions_come_from_the_summaries(modelled: Services) -> None:
    """D15: prepared when the conversation was read; no model is asked now."""

    def script(request: ChatRequest) -> ChatAnswer:
        urgent = "urgent" in request.messages[0].content
        return ChatAnswer.of(
            new_memories=[],
            conversation_summary={
                "title": "A talk",
                "outcome": "needs_followup" if urgent else "resolved",
                "followup_suggestions": ["Còn trong Node.js thì sao?" if urgent else "Anything?"],
                "key_topics": ["retries" if urgent else "tea"],
            },
        )

    modelled.model.script = script
    await learn(
        modelled,
        talk("urgent matter", conversation="old", at=NOON),
        talk("small talk", conversation="new", at=NOON + timedelta(hours=1)),
    )
    calls = modelled.model.calls["chat"]
    found = await ask(modelled, "GetSuggestions")
    assert list(found.suggestions) == ["Còn trong Node.js thì sao?", "Anything?"]
    assert list(found.recent_topics) == ["tea", "retries"]
    assert [c.conversation_id for c in found.recent_conversations] == ["new", "old"]
    assert modelled.model.calls["chat"] == calls
    nobody = await ask(modelled, "GetSuggestions", user_id="bea")
    assert not nobody.suggestions


async def test_entities_are_found_by_a_part_of_the_name(services: Services) -> None:
    """D7: prefix, inside, without case and diacritics; those mentioned most first."""
    await remember(
        services.conninfo,
        "ana",
        [
            Fact("1", entities=["Nguyễn Thành", "Sarah Miller"]),
            Fact("2", entities=["Sarah Miller"]),
            Fact("3", entities=["Project Miller 100%"]),
            Fact("4", entities=["Łukasz Pawłowski", "Søren Ærø", "ＮＴＴドコモ"]),
        ],
    )

    async def names(**fields: object) -> list[str]:
        found = await services.retrieval.FindEntities(
            pb.FindEntitiesRequest(user_id="ana", **fields)  # type: ignore[arg-type]
        )
        return [entity.name for entity in found.entities]

    assert (await names(name="mill"))[0] == "Sarah Miller"
    assert set(await names(name="MILLER")) == {"Sarah Miller", "Project Miller 100%"}
    assert await names(name="nguyen thanh") == ["Nguyễn Thành"]
    for asked in ("Lukasz", "Łukasz", "pawlowski"):
        assert await names(name=asked) == ["Łukasz Pawłowski"]
    assert await names(name="soren aero") == ["Søren Ærø"]
    assert await names(name="NTTドコモ") == ["ＮＴＴドコモ"]
    assert await names(name="100%") == ["Project Miller 100%"]
    assert await names(name="_") == []
    assert await names(name="\u0301\u0323") == []
    assert len(await names()) == 6
    assert await names(type=entity_pb2.ENTITY_TYPE_PLACE) == []


async def test_profiles_are_listed_by_user(services: Services) -> None:
    """E3: pages, and those of one department."""
    for user, department in (("bea", "sales"), ("ana", "sales"), ("cleo", "research")):
        await change_profile(services, user=user, department=department)
    first = await ask(services, "ListProfiles", page_size=2)
    assert [p.user_id for p in first.profiles] == ["ana", "bea"]
    assert first.total_size == 3
    rest = await ask(services, "ListProfiles", page_size=2, page_token=first.next_page_token)
    assert [p.user_id for p in rest.profiles] == ["cleo"]
    assert not rest.next_page_token
    sales = await ask(services, "ListProfiles", department="sales")
    assert [p.user_id for p in sales.profiles] == ["ana", "bea"]
