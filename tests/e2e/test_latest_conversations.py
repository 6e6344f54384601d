"""Questions for what came last take part in every named scope (D5)."""

from __future__ import annotations

import pytest

from hitherto.v1 import search_pb2
from tests.e2e.conftest import Services
from tests.e2e.shelf import ago, fill
from tests.e2e.test_search import leg, search
from tests.e2e.test_search_scopes import MEMORIES, MESSAGES, SUMMARIES
from tests.integration.retrieval.seed import Fact
from tests.integration.retrieval.seed_passages import Outline, Turn


@pytest.fixture
async def ana(tenant_conninfo: str) -> None:
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


@pytest.mark.parametrize("ranking", ["seed003", "balanced"])
@pytest.mark.parametrize("query", ["latest", "recent conversations", "cuộc trò chuyện gần đây"])
async def test_d5_summaries_alone_are_answered_newest_first(
    services: Services, ana: None, query: str, ranking: str
) -> None:
    found = await search(services, query, scopes=[SUMMARIES], ranking=ranking)
    named = [result.summary.conversation_id for result in found.results]
    assert named[0] == "repair"
    assert set(named) == {"repair", "sailing", "harbour"}
    temporal = leg(found, "temporal")
    assert temporal.state == search_pb2.LEG_STATE_RAN
    assert temporal.candidates == 3


async def test_d5_what_it_is_about_comes_first(services: Services, ana: None) -> None:
    found = await search(services, "last sailing", scopes=[SUMMARIES], ranking="seed003")
    assert found.results[0].summary.conversation_id == "sailing"
    assert found.results[0].score == pytest.approx(0.9)


@pytest.mark.parametrize("limit", [2, 3, 6, 10])
async def test_d5_no_scope_takes_the_places_of_another(
    services: Services, ana: None, limit: int
) -> None:
    scopes = [MEMORIES, MESSAGES, SUMMARIES]
    found = await search(services, "latest", scopes=scopes, ranking="seed003", limit=limit)
    kinds = [result.WhichOneof("item") for result in found.results]
    assert len(kinds) == limit
    assert len(set(kinds)) == min(3, limit)
    if limit >= 6:
        assert kinds.count("summary") >= 2
