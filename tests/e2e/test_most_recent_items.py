"""Questions for what came last (D5): balanced over sources and scopes, the newest of each first."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest

from hitherto.v1 import conversation_pb2, search_pb2
from tests.e2e.conftest import Services
from tests.e2e.methods import ask
from tests.e2e.shelf import ago, fill
from tests.e2e.test_search import leg, search
from tests.e2e.test_search_scopes import DOCUMENTS, MEMORIES, MESSAGES, SUMMARIES
from tests.integration.retrieval.seed import Fact
from tests.integration.retrieval.seed_passages import Outline, Paper, Turn

CONTENT = {
    "gmail": "email", "outlook": "email", "gdrive": "document", "onedrive": "document",
    "jira": "task", "calendar": "event",
}  # fmt: skip
# A busy mailbox, a quiet one, and little of everything else.
MADE = {
    "gmail": [0.1 * n for n in range(1, 21)],
    "outlook": [20.0, 21.0, 22.0],
    "gdrive": [5.0, 6.0, 7.0],
    "onedrive": [9.0, 10.0],
    "jira": [12.0, 13.0, 14.0],
    "calendar": [15.0],
}


@pytest.fixture
async def ana(tenant_conninfo: str) -> None:
    """Documents of six sources, with a few memories and messages beside them."""
    papers = [
        Paper(
            source,
            [f"{source} number {place} about the harvest"],
            title=f"{source} {place}",
            content_type=CONTENT[source],
            made_at=ago(days),
        )
        for source, ages in MADE.items()
        for place, days in enumerate(ages)
    ]
    await fill(
        tenant_conninfo,
        "ana",
        memories=[
            Fact("Ana's last name is Silva", valid_from=ago(300)),
            Fact("Ana bought a press", valid_from=ago(1)),
            Fact("Ana sold a barrel", valid_from=ago(2)),
        ],
        conversations={
            "old": [Turn("My last name is Silva", said_at=ago(300))],
            "new": [Turn("The press works", said_at=ago(1))],
        },
        summaries=[Outline("old", "Names", said_at=ago(300))],
        documents=papers,
    )


async def shown(services: Services, query: str, ranking: str) -> list[tuple[str, int]]:
    """Source and place in time (0 is the newest) of the documents found, best first."""
    found = await search(services, query, scopes=[DOCUMENTS], ranking=ranking)
    titles = [result.document_chunk.title.split() for result in found.results]
    return [(source, int(place)) for source, place in titles]


EMAILS = ["gmail"] * 5 + ["outlook"] * 3
FILES = ["gdrive"] * 3 + ["onedrive"] * 2
QUESTIONS = {
    "last email": EMAILS,
    "Show me my three most recent emails, please": EMAILS,
    "email mới nhất": EMAILS,
    "email moi nhat": EMAILS,
    "最新のメール": EMAILS,
    "my latest tasks": ["jira"] * 3,
    "tài liệu gần đây": FILES,
    "what came last?": ["gmail"] * 10,
}


@pytest.mark.parametrize("ranking", ["balanced", "weighted"])
async def test_d5_the_newest_of_each_named_source_come_first_by_time(
    services: Services, ana: None, ranking: str
) -> None:
    """max(2, limit // n) of each of n sources, whatever the words and the language."""
    for query, expected in QUESTIONS.items():
        found = (await shown(services, query, ranking))[: len(expected)]
        assert [source for source, _ in found] == expected, query
        for source in set(expected):
            assert [place for name, place in found if name == source] == list(
                range(expected.count(source))
            ), query


async def test_d5_what_a_question_is_about_goes_before_what_is_newest(services: Services) -> None:
    """Among answers about it the newer one is preferred."""
    about = [
        Paper("gmail", ["The tulip auction moved"], title=f"tulips {days}", made_at=ago(days))
        for days in (30, 60)
    ]
    others = [
        Paper("gmail", [f"Invoice number {n}"], title=f"invoice {n}", made_at=ago(n / 10))
        for n in range(1, 20)
    ]
    await fill(services.conninfo, "ana", documents=[*about, *others])
    found = await shown(services, "latest email about the tulip auction", "balanced")
    assert found[:2] == [("tulips", 30), ("tulips", 60)]


@pytest.fixture
async def conversations(tenant_conninfo: str) -> None:
    """Three conversations with summaries, of which the newest has many messages."""
    await fill(
        tenant_conninfo,
        "ana",
        memories=[Fact("Ana bought a boat", valid_from=ago(40))],
        conversations={
            "harbour": [Turn("We left the harbour", said_at=ago(30))],
            "sailing": [Turn("We sailed to the island", said_at=ago(20))],
            "repair": [Turn(f"Repair step {n}", said_at=ago(5 - n / 10)) for n in range(20)],
        },
        summaries=[
            Outline("harbour", "Leaving the harbour", said_at=ago(30)),
            Outline("sailing", "Sailing to the island", said_at=ago(20)),
            Outline("repair", "Repairing the mast", said_at=ago(3)),
        ],
    )


async def test_d5_summaries_alone_are_answered_newest_first(
    services: Services, conversations: None
) -> None:
    queries = ("latest", "recent conversations", "cuộc trò chuyện gần đây")
    for query, ranking in product(queries, ("weighted", "balanced")):
        found = await search(services, query, scopes=[SUMMARIES], ranking=ranking)
        named = [result.summary.conversation_id for result in found.results]
        assert named[0] == "repair", (query, ranking)
        assert set(named) == {"repair", "sailing", "harbour"}, (query, ranking)
        temporal = leg(found, "temporal")
        assert temporal.state == search_pb2.LEG_STATE_RAN
        assert temporal.candidates == 3

    # What it is about comes first.
    found = await search(services, "last sailing", scopes=[SUMMARIES], ranking="weighted")
    assert found.results[0].summary.conversation_id == "sailing"
    assert found.results[0].score == pytest.approx(0.9)
    # No scope takes the places of another.
    scopes = [MEMORIES, MESSAGES, SUMMARIES]
    for limit in (2, 3, 6, 10):
        found = await search(services, "latest", scopes=scopes, ranking="weighted", limit=limit)
        kinds = [result.WhichOneof("item") for result in found.results]
        assert len(kinds) == limit
        assert len(set(kinds)) == min(3, limit)
        if limit >= 6:
            assert kinds.count("summary") >= 2


async def test_d5_what_is_dated_in_the_future_is_no_newer_than_its_arrival(
    services: Services,
) -> None:
    """A clock that runs ahead, or a unit mistaken, puts nothing before what arrives later."""
    for place, at in enumerate([datetime(2199, 1, 1, tzinfo=UTC), None, ago(2)]):
        message = conversation_pb2.Message(
            role=conversation_pb2.ROLE_USER, content=f"The pump was checked, round {place}"
        )
        if at is not None:
            message.created_at.FromDatetime(at)
        given = {"conversation_id": f"c{place}", "messages": [message]}
        accepted = await ask(services, "AppendMessages", **given)
    token = accepted.consistency_token
    recent = await ask(services, "GetRecentConversations", consistency_token=token)
    assert [each.summary.conversation_id for each in recent.conversations] == ["c1", "c0", "c2"]
    listed: list[str] = []
    token = ""
    while token or not listed:
        page = await ask(services, "ListConversations", page_size=1, page_token=token)
        listed += [each.conversation_id for each in page.conversations]
        token = page.next_page_token
    assert listed == ["c1", "c0", "c2"]
    # From the third one on, they are answered from what the process holds of the user.
    for query, ranking in product(["", *["What came last?"] * 4], ("weighted", "balanced")):
        found = await search(services, query, scopes=[MESSAGES], ranking=ranking)
        assert [each.message.conversation_id for each in found.results] == ["c1", "c0", "c2"]
        found = await search(services, query, scopes=[MESSAGES], ranking=ranking, limit=1)
        assert [each.message.conversation_id for each in found.results] == ["c1"]
    assert found.results[0].message.created_at.ToDatetime(UTC) <= datetime.now(UTC)
