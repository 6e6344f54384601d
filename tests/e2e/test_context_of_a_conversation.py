"""GetContext in the middle of a conversation: what came before and is about it (D1, F2, F4)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto.v1 import search_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import forget
from tests.e2e.learning import ended, memories, submit, talk
from tests.e2e.shelf import NOW, OFFLINE, ago, fill
from tests.integration.retrieval.seed import Fact
from tests.integration.retrieval.seed_passages import Outline, Paper, Turn, converse


async def context(services: Services, **fields: Any) -> pb.GetContextResponse:
    return await services.retrieval.GetContext(pb.GetContextRequest(user_id="ana", **fields))


@pytest.fixture
async def ana(tenant_conninfo: str) -> None:
    talks = {
        "python": ("Xử lý lỗi khi đọc tệp trong Python", 90),
        **{f"recent-{n}": (f"Chuyện hằng ngày số {n}", n) for n in range(1, 8)},
        "now": ("Đang nói chuyện", 0),
    }
    await fill(
        tenant_conninfo,
        "ana",
        memories=[Fact("Ana keeps bees")],
        conversations={
            name: [Turn(f"Bees again, {name}", said_at=ago(days))]
            for name, (_, days) in talks.items()
        },
        summaries=[
            Outline(name, text, title=text, said_at=ago(days))
            for name, (text, days) in talks.items()
        ],
    )


async def test_d1_conversations_about_the_query_come_before_recent_ones(
    services: Services, ana: None
) -> None:
    """Document 001: the follow-up finds the topic, however long ago that was.

    "tệp" names a kind of content, but there are no documents that could be meant.
    """
    told = await context(
        services, query="Còn đọc tệp trong Node.js thì sao?", conversation_id="now"
    )
    order = [one.conversation_id for one in told.conversations]
    assert order[:2] == ["now", "python"]
    assert order[2:] == ["recent-1", "recent-2", "recent-3"]
    assert "Python" in told.prompt_block
    # Without a query, or where it is about nothing, the latest come.
    for fields in ({}, {"query": "zzz qqq"}):
        plain = await context(services, **fields)
        assert [one.conversation_id for one in plain.conversations][:2] == ["now", "recent-1"]

    # Those of a time that it names come first too.
    day = (NOW - timedelta(days=90)).date()
    for query in (f"What did we talk about on {day.isoformat()}?", f"bees on {day.isoformat()}"):
        told = await context(services, query=query)
        assert told.conversations[0].conversation_id == "python", query


async def test_d1_what_is_relevant_is_of_the_kinds_asked_for(services: Services) -> None:
    await fill(
        services.conninfo,
        "ana",
        memories=[Fact("Ana keeps bees")],
        conversations={"c": [Turn(f"Bees again, {n}") for n in range(4)]},
        summaries=[Outline("c", "Bees")],
        documents=[Paper("gdrive", ["Bees need water"], title="Bees")],
    )
    by_default = await context(
        services, query="Ana keeps bees, what do bees need?", min_relevance=0
    )
    kinds = {"memory", "message", "summary", "document_chunk"}
    assert {r.WhichOneof("item") for r in by_default.relevant} == kinds
    assert "Bees need water" in by_default.prompt_block
    only = await context(
        services, query="bees", scopes=[search_pb2.SEARCH_SCOPE_MESSAGES], max_relevant=3
    )
    assert [r.WhichOneof("item") for r in only.relevant] == ["message"] * 3
    none = await context(services, query="bees", max_relevant=0, max_conversations=0)
    assert not none.relevant
    assert not none.conversations
    assert {report.name for report in none.legs} == {"profile", "recent"}


async def test_f4_what_the_last_answer_rested_on_comes_back(services: Services) -> None:
    """As it was stored, whatever kind it is; what is not the user's or is forgotten does not."""
    mine = await fill(
        services.conninfo,
        "ana",
        memories=[Fact("Ana keeps bees"), Fact("Ana kept goats", status="forgotten")],
        documents=[Paper("gmail", ["Honey order"])],
    )
    (theirs,) = await fill(services.conninfo, "minh", memories=[Fact("Minh sails")])
    async with await psycopg.AsyncConnection.connect(services.conninfo) as connection:
        cursor = await connection.execute("SELECT document_id FROM documents")
        ((document,),) = await cursor.fetchall()
    named = [
        {"id": str(document), "relevance": 0.9},
        {"id": mine[0], "relevance": 0.4},
        {"id": mine[1], "relevance": 0.8},
        {"id": theirs, "relevance": 0.8},
        {"id": "no such thing", "relevance": 0.7},
        {"id": mine[0], "relevance": 0.1},
    ]
    await converse(
        services.conninfo,
        "ana",
        {
            "c1": [
                Turn("Earlier", role="assistant", context_items=[{"id": theirs}]),
                Turn("Which order?"),
                Turn("The honey.", role="assistant", context_items=named),
                Turn("And the second one?"),
            ]
        },
        model=OFFLINE,
    )
    told = await context(services, conversation_id="c1", query="And the second one?")
    assert [r.WhichOneof("item") for r in told.previous_items] == ["document_chunk", "memory"]
    assert [r.score for r in told.previous_items] == pytest.approx([0.9, 0.4])
    assert told.previous_items[0].document_chunk.content == "Honey order"
    assert "Honey order" in told.prompt_block
    # Found once more by the question, it is printed once.
    again = await context(services, conversation_id="c1", query="Which honey order?")
    assert again.previous_items[0].document_chunk.content == "Honey order"
    assert "Honey order" in [r.document_chunk.content for r in again.relevant]
    assert again.prompt_block.count("Honey order") == 1
    elsewhere = await context(services, conversation_id="c2")
    assert not elsewhere.previous_items


async def test_d1_conversations_that_are_not_shown_take_no_place(services: Services) -> None:
    """F1: however many of the last ones taught what is forgotten, those before them are shown."""
    things = ["honey", *(f"tea number {number}" for number in range(14))]
    said = [
        talk(f"I like {thing}.", conversation=f"c{place}", at=NOW - timedelta(days=30 - place))
        for place, thing in enumerate(things)
    ]
    for job_id in await submit(services, *said):
        await ended(services, job_id)
    for each in await memories(services):
        if "honey" not in each.content:
            await forget(services, each.id)
    found = await context(services, max_conversations=2)
    assert [each.conversation_id for each in found.conversations] == ["c0"]
    day = (NOW - timedelta(days=30)).date()
    told = found.prompt_block.partition("Recent conversations:\n")[2]
    assert told.startswith(f"- {day} "), told
    assert "honey" in told
    undated = await context(services, max_conversations=2, line_dates=False)
    assert str(day) not in undated.prompt_block.partition("Recent conversations:")[2]
    asked = pb.GetSuggestionsRequest(user_id="ana")
    suggested = await services.retrieval.GetSuggestions(asked)
    assert [each.conversation_id for each in suggested.recent_conversations] == ["c0"]
