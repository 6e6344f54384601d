"""SearchMemories over a real port (D3, D4, D8, D13; contract: names, scale, defaults)."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import psycopg
import pytest

from hitherto.v1 import memory_pb2, retrieval_service_pb2, search_pb2
from hitherto_shared.embeddings.offline import OfflineEmbedder
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save
from tests.e2e.sessions import refusal_of
from tests.integration.retrieval.seed import Fact, remember

# Every name a component may have, by contract.
NAMES = set(
    "semantic source fulltext keyword date session neighbour facts speaker entity temporal recency "
    "source_priority cap".split()
)
FACTS = [
    Fact("Ana lives in Porto", importance=0.9, entities=["Porto"]),
    Fact("Ana writes Node.js services", importance=0.8, entities=["Node.js"]),
    Fact("Chị Lan sống ở Hà Nội", importance=0.7, entities=["Hà Nội"]),
    Fact("東京に住んでいます", importance=0.6, entities=["東京"]),
    Fact("أحب القهوة العربية", importance=0.5),
    Fact("The favourite sign is 🦊", importance=0.4),
    Fact("The coupon reads '; DROP TABLE memories; -- 100% \\ off", importance=0.3),
]


async def search(
    services: Services, query: str = "", user: str = "ana", **fields: Any
) -> retrieval_service_pb2.SearchMemoriesResponse:
    return await services.retrieval.SearchMemories(
        # What is found is tested here, not only what answers.
        retrieval_service_pb2.SearchMemoriesRequest(
            **{"user_id": user, "query": query, "min_relevance": 0.0, **fields}
        )
    )


def contents(response: retrieval_service_pb2.SearchMemoriesResponse) -> list[str]:
    return [result.memory.content for result in response.results]


def leg(
    response: retrieval_service_pb2.SearchMemoriesResponse
    | retrieval_service_pb2.GetContextResponse,
    name: str,
) -> search_pb2.LegReport:
    (found,) = [report for report in response.legs if report.name == name]
    return found


async def refused(call: Any, *fields: str) -> None:
    """The call is INVALID_ARGUMENT and every one of `fields` is named."""
    refusal = await refusal_of(call)
    assert refusal.code is grpc.StatusCode.INVALID_ARGUMENT, refusal
    assert refusal.fields.keys() == set(fields)


@pytest.fixture
async def ana(tenant_conninfo: str) -> None:
    await remember(tenant_conninfo, "ana", FACTS, embedder=OfflineEmbedder())


async def test_the_breakdown_adds_up_and_is_there_when_asked_for(
    services: Services, ana: None
) -> None:
    explained = await search(services, "Where does Ana live in Porto?", explain=True)
    assert len(explained.results) == len(FACTS)
    for result in explained.results:
        assert math.isclose(sum(result.breakdown.values()), result.score, abs_tol=1e-9)
        assert 0.0 <= result.score <= 1.0
        assert set(result.breakdown) <= NAMES
    assert explained.results[0].breakdown["keyword"] > 0
    assert set(explained.results[0].matched_legs) == {"semantic", "keyword", "entity"}
    scores = [result.score for result in explained.results]
    assert scores == sorted(scores, reverse=True)
    plain = await search(services, "Where does Ana live in Porto?")
    assert [dict(result.breakdown) for result in plain.results] == [{}] * len(FACTS)
    assert [result.score for result in plain.results] == scores
    assert not plain.degraded
    assert plain.candidates_total == len(FACTS)
    for name in ("semantic", "keyword", "entity"):
        assert leg(plain, name).state == search_pb2.LEG_STATE_RAN


async def test_weights_and_min_score_per_request(services: Services, ana: None) -> None:
    only_words = {"semantic": 0.0, "source": 0.0, "date": 0.0, "entity": 0.0}
    found = await search(services, "Porto", weights=only_words, explain=True)
    assert contents(found)[0] == "Ana lives in Porto"
    assert [result.score > 0 for result in found.results] == [True] + [False] * (len(FACTS) - 1)
    bound = found.results[0].score
    kept = await search(services, "Porto", weights=only_words, min_score=bound - 1e-9)
    assert contents(kept) == ["Ana lives in Porto"]
    assert contents(await search(services, "Porto", min_score=1.0)) == []
    assert len((await search(services, "Porto", min_score=0.0)).results) == len(FACTS)


async def test_an_empty_query_lists_by_importance_then_recency_of_use(services: Services) -> None:
    now = datetime.now(UTC)
    ids = await remember(
        services.conninfo,
        "ana",
        [
            Fact("new", importance=0.5, created_at=now - timedelta(days=1)),
            Fact("old, just used", importance=0.5, created_at=now - timedelta(days=90)),
            Fact("heavy", importance=0.9, created_at=now - timedelta(days=99)),
        ],
    )
    async with await psycopg.AsyncConnection.connect(services.conninfo) as connection:
        await connection.execute(
            "INSERT INTO memory_access"
            " VALUES (current_setting('hitherto.tenant_id'), 'ana', %s, 1, now())",
            (ids[1],),
        )
    # Asked again and again where a snapshot is to answer, which must not count as use.
    found = await search(services, explain=True, count_access=False)
    assert contents(found) == ["heavy", "old, just used", "new"]
    assert [result.score for result in found.results] == [0.0] * 3
    assert set(found.results[0].breakdown.values()) == {0.0}
    assert {report.state for report in found.legs} == {search_pb2.LEG_STATE_SKIPPED}
    assert not found.degraded
    fact = memory_pb2.MEMORY_TYPE_FACT
    assert contents(await search(services, limit=1, types=[fact])) == ["heavy"]


async def test_a_time_in_the_question_lifts_what_is_of_that_time(services: Services) -> None:
    trips = [
        Fact("Went hiking with Bo", valid_from=datetime(2023, month, 15, tzinfo=UTC))
        for month in (1, 5, 9)
    ]
    ids = await remember(services.conninfo, "ana", trips, embedder=OfflineEmbedder())
    found = await search(services, "When did I go hiking in May 2023?", explain=True)
    assert found.results[0].memory.id == str(ids[1])
    assert found.results[0].breakdown["date"] == pytest.approx(0.4 / (2.25 * 1.5))
    assert "temporal" in found.results[0].matched_legs
    assert "temporal" not in found.results[2].matched_legs
    for reference, expected in ((datetime(2023, 2, 10), 0), (datetime(2023, 10, 3), 2)):
        last_month = await search(
            services, "hiking last month", reference_time=reference.replace(tzinfo=UTC)
        )
        assert last_month.results[0].memory.id == str(ids[expected])
    asked = datetime(2023, 10, 3, tzinfo=UTC)
    elsewhere = await search(services, "hiking 先月の", reference_time=asked, explain=True)
    assert elsewhere.results[0].memory.id == str(ids[2])
    assert "temporal" in elsewhere.results[0].matched_legs


async def test_many_among_more_with_one_connection(
    start_services: StartServices, superuser_conninfo: str
) -> None:
    """faults.md row 24 and Q2 through the public call."""
    embedder = OfflineEmbedder()
    crowd = [Fact(f"noise number {n}") for n in range(1_200)]
    await remember(superuser_conninfo, "crowd", crowd, embedder=embedder)
    mine = [
        Fact(f"my note {n} about tea", type="goal" if n % 10 < 3 else "fact") for n in range(30)
    ]
    await remember(superuser_conninfo, "ana", mine, embedder=embedder)
    async with start_services(read_pool_size=1) as services:
        for n in range(20):
            found = await search(
                services, f"note {n} tea", types=[memory_pb2.MEMORY_TYPE_GOAL], limit=20
            )
            assert (len(found.results), found.candidates_total) == (9, 9)


async def test_d17_what_does_not_answer_is_no_result_unless_asked_for(services: Services) -> None:
    """The floor of relevance: a search, a context's block and its flag tell the same."""
    await save(services, "Ana works as a nurse in Porto")
    plain = retrieval_service_pb2.SearchMemoriesRequest(user_id="ana", query="Atlantis")
    assert not (await services.retrieval.SearchMemories(plain)).results
    assert len((await search(services, "Atlantis")).results) == 1
    # What is in doubt may be left out of any search.
    plain.include_doubtful = False
    assert not (await services.retrieval.SearchMemories(plain)).results
    asked = retrieval_service_pb2.GetContextRequest(user_id="ana", query="Atlantis")
    told = await services.retrieval.GetContext(asked)
    assert told.nothing_relevant
    assert not told.relevant
    assert "- Nothing was found that answers the current message." in told.prompt_block.splitlines()
    asked.query = "Where is Porto?"
    told = await services.retrieval.GetContext(asked)
    assert not told.nothing_relevant
    assert [each.memory.content for each in told.relevant] == ["Ana works as a nurse in Porto"]
    assert "Nothing that is known" not in told.prompt_block
    # A filter says what belongs.
    plain.types.append(told.relevant[0].memory.type)
    assert len((await services.retrieval.SearchMemories(plain)).results) == 1
