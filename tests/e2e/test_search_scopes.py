"""Searches over memories, messages, summaries and documents (D3, D4, D5, D6, D7), by the RPCs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto.v1 import search_pb2
from tests.e2e.conftest import Services
from tests.e2e.methods import ask
from tests.e2e.shelf import ago, fill
from tests.e2e.test_search import leg, refused, search
from tests.integration.retrieval.seed import Fact
from tests.integration.retrieval.seed_passages import Outline, Paper, Turn

MEMORIES, MESSAGES, SUMMARIES, DOCUMENTS = (
    search_pb2.SEARCH_SCOPE_MEMORIES,
    search_pb2.SEARCH_SCOPE_MESSAGES,
    search_pb2.SEARCH_SCOPE_SUMMARIES,
    search_pb2.SEARCH_SCOPE_DOCUMENTS,
)
EVERYWHERE = [MEMORIES, MESSAGES, SUMMARIES, DOCUMENTS]
ASKED = "When is the budget for the Q4 campaign due?"


@pytest.fixture
async def ana(tenant_conninfo: str) -> None:
    """Something about the budget of every kind, and something else beside it."""
    papers = {
        "gmail": ("Sarah writes: the Q4 campaign budget is due on Friday", "email", 5),
        "gdrive": ("Plan of the Q4 campaign with its budget", "document", 9),
        "jira": ("Fix the bee hive monitor", "task", 1),
    }
    await fill(
        tenant_conninfo,
        "ana",
        memories=[
            Fact(
                "Ana owns the budget of the Q4 campaign",
                entities=["Q4 campaign"],
                conversation_id="c1",
            ),
            Fact("Ana keeps bees"),
        ],
        conversations={
            "c1": [
                Turn("The Q4 campaign budget is due on Friday"),
                Turn("Noted. Shall I remind you?", "assistant"),
                Turn("Yes, on Thursday please"),
                Turn("tool output about the budget", role="tool"),
            ],
            "c2": [Turn("My bees swarmed today")],
        },
        summaries=[
            Outline("c1", "The Q4 campaign budget is due"),
            Outline("c2", "Bees swarmed"),
        ],
        documents=[
            Paper(source, [text], title=text[:20], content_type=kind, made_at=ago(days))
            for source, (text, kind, days) in papers.items()
        ],
    )


def kinds(found: pb.SearchMemoriesResponse) -> list[str | None]:
    return [result.WhichOneof("item") for result in found.results]


def sources(found: pb.SearchMemoriesResponse) -> list[str]:
    return [result.document_chunk.source_type for result in found.results]


def ids(found: pb.SearchMemoriesResponse) -> list[str]:
    return [result.message.id for result in found.results]


KINDS = {
    MEMORIES: "memory",
    MESSAGES: "message",
    SUMMARIES: "summary",
    DOCUMENTS: "document_chunk",
}


async def test_d3_each_scope_finds_its_own_kind_and_all_stand_on_one_scale(
    services: Services, ana: None
) -> None:
    for ranking, highest in (("balanced", 1.0), ("weighted", 1.2)):
        for scope, kind in KINDS.items():
            found = await search(services, ASKED, scopes=[scope], ranking=ranking, explain=True)
            assert set(kinds(found)) == {kind}, ranking
            best = found.results[0]
            assert "budget" in str(best).lower(), (ranking, scope)
            for result in found.results:
                assert math.isclose(sum(result.breakdown.values()), result.score, abs_tol=1e-9)
                assert 0.0 <= result.score <= highest
            assert {"semantic", "keyword"} <= set(best.matched_legs), (ranking, scope)
            assert not found.degraded
    found = await search(services, ASKED, scopes=EVERYWHERE, limit=20)
    assert set(kinds(found)) == set(KINDS.values())
    scores = [result.score for result in found.results]
    assert scores == sorted(scores, reverse=True)
    for kind in KINDS.values():
        first = next(r for r in found.results if r.WhichOneof("item") == kind)
        # The memory does not hold all words of the message that it was made of: both are results.
        assert "budget" in str(first).lower(), kind
    assert leg(found, "episodic").candidates == 6
    assert leg(found, "documents").candidates == 3
    assert found.candidates_total == 11
    # What a tool said is never found.
    found = await search(services, "tool output", scopes=[MESSAGES], limit=50)
    assert len(found.results) == 4
    assert not [r for r in found.results if "tool output" in r.message.content]
    # Weights are those of the ranking.
    await refused(search(services, ASKED, weights={"temporal": 1.0}), "weights[temporal]")
    await refused(
        search(services, ASKED, ranking="weighted", weights={"session": 1.0}), "weights[session]"
    )
    assert (await search(services, ASKED, ranking="weighted", weights={"semantic": 0.0})).results


async def test_d3_without_a_query_all_of_every_kind_is_listed(
    services: Services, ana: None
) -> None:
    """Memories first, messages newest first; filters hold, and nothing has a score."""
    found = await search(services, scopes=EVERYWHERE, limit=20)
    assert kinds(found)[:2] == ["memory"] * 2
    counts = {"memory": 2, "message": 4, "summary": 2, "document_chunk": 3}
    assert Counter(kinds(found)) == counts
    assert (found.candidates_total, {result.score for result in found.results}) == (11, {0.0})
    limited = await search(services, scopes=[MESSAGES], conversation_id="c1", limit=2)
    assert ids(limited) == ["m3", "m2"]
    assert limited.candidates_total == 3
    assert not (await search(services, scopes=[MESSAGES], conversation_id="other")).results
    assert not (await search(services, scopes=[MESSAGES, SUMMARIES], min_score=0.1)).results


async def test_a_message_is_lifted_by_its_neighbours_and_comes_with_them(
    services: Services, ana: None
) -> None:
    """Design §5: what stands beside an answer is often a part of it."""
    found = await search(services, ASKED, scopes=[MESSAGES], explain=True)
    assert ids(found)[0] == "m1"
    lifted = {result.message.id: result for result in found.results}["m2"]
    assert lifted.breakdown["neighbour"] > 0
    assert not any(result.excerpt for result in found.results)
    found = await search(services, ASKED, scopes=[MEMORIES, MESSAGES], excerpt_messages=1, limit=10)
    memory = next(r for r in found.results if r.memory.content.startswith("Ana owns"))
    assert [message.id for message in memory.excerpt] == ["m1", "m2"]
    second = next(r for r in found.results if r.message.id == "m2")
    assert [message.id for message in second.excerpt] == ["m1", "m2", "m3"]
    await refused(search(services, ASKED, excerpt_messages=-1), "excerpt_messages")


async def test_d8_filters_of_other_kinds(services: Services, ana: None) -> None:
    found = await search(services, ASKED, scopes=[DOCUMENTS], source_types=["gdrive"])
    assert sources(found) == ["gdrive"]
    found = await search(services, ASKED, scopes=EVERYWHERE, conversation_id="c2", limit=20)
    assert set(kinds(found)) == {"message", "summary"}
    found = await search(services, ASKED, scopes=[MESSAGES], entity="q4 campaign", limit=20)
    assert ids(found) == ["m1"]
    # D17: any filter, also one that only documents have, returns as many as exist; without one,
    # relevance ends the list.
    asked = {"query": "zebra violin", "scopes": [DOCUMENTS]}
    assert not (await ask(services, "SearchMemories", **asked)).results
    for chosen in ({"created_after": ago(2)}, {"source_types": ["jira"]}):
        found = await ask(services, "SearchMemories", **asked, **chosen)
        assert sources(found) == ["jira"], chosen
        floored = await ask(services, "SearchMemories", **asked, **chosen, min_relevance=0.5)
        assert not floored.results, chosen


async def test_d5_d6_a_named_kind_of_content(services: Services, ana: None) -> None:
    """The latest of it come with the named sources balanced, by time, and marked as found by it."""
    for ranking in ("balanced", "weighted", "seed003"):
        found = await search(
            services, "my latest email", scopes=[DOCUMENTS], ranking=ranking, explain=True
        )
        assert sources(found)[0] == "gmail"
        assert "temporal" in found.results[0].matched_legs
        assert leg(found, "temporal").state == search_pb2.LEG_STATE_RAN
    assert found.results[0].score == pytest.approx(0.9)
    trap = await search(services, "What is my last name?", scopes=[DOCUMENTS])
    assert not [report for report in trap.legs if report.name == "temporal"]
    # It leaves conversations out.
    found = await search(services, "the email about the budget", scopes=EVERYWHERE, limit=20)
    assert set(kinds(found)) == {"memory", "document_chunk"}
    skipped = leg(found, "episodic")
    assert skipped.state == search_pb2.LEG_STATE_SKIPPED
    assert skipped.reason
    # Where nothing but conversations is asked for, they answer.
    found = await search(services, "the email about the budget", scopes=[MESSAGES])
    assert set(kinds(found)) == {"message"}
    assert not found.degraded


async def test_d7_an_alias_finds_what_mentions_the_entity(services: Services) -> None:
    facts = [Fact("They climbed at dawn", entities=["Roberto Díaz"]), Fact("They swam at noon")]
    await fill(services.conninfo, "ana", memories=facts)
    async with await psycopg.AsyncConnection.connect(services.conninfo) as connection:
        await connection.execute("UPDATE entities SET aliases = '{Beto,Bob}'")
    found = await search(services, "What does BETO like?", explain=True)
    assert found.results[0].memory.content == "They climbed at dawn"
    assert "entity" in found.results[0].matched_legs
    assert found.results[0].breakdown["entity"] > 0
    assert [entity.name for entity in found.entities] == ["Roberto Díaz"]
    assert leg(found, "entity").candidates == 1
    only = await search(services, "What do they do?", entity="bob")
    assert [result.memory.content for result in only.results] == ["They climbed at dawn"]


async def test_d3_what_is_of_the_time_asked_about_comes_up_among_many_that_match_better(
    services: Services,
) -> None:
    """More than any leg brings in match the words; the few of that day match them less."""
    day = datetime(2023, 5, 15, 12, tzinfo=UTC)
    others = [day + timedelta(days=30 + n) for n in range(60)]
    better = "The work meeting about the work plan went on and on"
    conversations = {f"c{n}": [Turn(better, said_at=moment)] for n, moment in enumerate(others)}
    await fill(
        services.conninfo,
        "ana",
        conversations={**conversations, "day": [Turn("Our plan is dropped", said_at=day)]},
        summaries=[
            *(Outline(f"c{n}", better, said_at=moment) for n, moment in enumerate(others)),
            Outline("day", "It was dropped", said_at=day),
        ],
        documents=[
            *(
                Paper("gdrive", [better], title=f"{n}", made_at=moment)
                for n, moment in enumerate(others)
            ),
            Paper("gdrive", ["Dropped"], made_at=day),
        ],
    )

    shown_as: list[tuple[int, Callable[[search_pb2.SearchResult], bool]]] = [
        (MESSAGES, lambda result: result.message.conversation_id == "day"),
        (SUMMARIES, lambda result: result.summary.conversation_id == "day"),
        (DOCUMENTS, lambda result: result.document_chunk.content == "Dropped"),
    ]
    for scope, shown in shown_as:
        asked = "What came of the work meeting about the work plan on 15 May 2023?"
        found = await search(services, asked, scopes=[scope], explain=True)
        (of_that_day,) = [result for result in found.results if shown(result)]
        assert of_that_day.breakdown["date"] > 0
        assert "temporal" in of_that_day.matched_legs
        without = await search(
            services, "What came of the work meeting about the work plan?", scopes=[scope]
        )
        assert not [result for result in without.results if shown(result)]
