"""Searches of users with more memories than a leg brings in (D3, Q2): the quick way and the exact.

Among many current memories the nearest are looked up without reading the memories themselves; where
that finds too few, everything is compared. Both must answer alike.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hitherto_retrieval.search.search import CANDIDATES
from hitherto_shared.embeddings.offline import OfflineEmbedder
from tests.e2e.conftest import Services
from tests.e2e.test_search import contents, leg, search
from tests.integration.retrieval.seed import Fact, remember

YESTERDAY = datetime.now(UTC) - timedelta(days=1)


def crowd(count: int, **more: object) -> list[Fact]:
    return [Fact(f"On day {n} they walked route {n}", **more) for n in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [100, 1_100])
async def test_one_among_many_is_found_with_all_its_features(
    services: Services, tenant_conninfo: str, count: int
) -> None:
    """Exactly up to a thousand memories, by the signs of the vectors above."""
    needle = Fact("Hoa bakes rye bread on Sundays", entities=["Hoa"])
    facts = [*crowd(count // 2), needle, *crowd(count // 2)]
    await remember(tenant_conninfo, "ana", facts, embedder=OfflineEmbedder())
    for _ in range(12):  # past the point where a connection keeps its plans
        found = await search(services, "Does Hoa bake rye bread?", explain=True)
        assert contents(found)[0] == needle.content
        assert len(found.results) == 10
        assert set(found.results[0].matched_legs) == {"semantic", "keyword", "entity"}
        assert found.results[0].breakdown["keyword"] > 0
    assert leg(found, "semantic").candidates >= CANDIDATES
    everything = await search(services, "Does Hoa bake rye bread?", limit=200)
    assert len(everything.results) == min(200, len(facts))
    assert contents(everything)[0] == needle.content


async def test_those_in_front_that_have_expired_hide_nobody(
    services: Services, tenant_conninfo: str
) -> None:
    """Q2: the hundred nearest are gone, the others are all there."""
    gone = [Fact(f"rye bread recipe {n}", expires_at=YESTERDAY) for n in range(100)]
    kept = crowd(30)
    await remember(tenant_conninfo, "ana", [*gone, *kept], embedder=OfflineEmbedder())
    found = await search(services, "rye bread recipe", limit=200)
    assert sorted(contents(found)) == sorted(fact.content for fact in kept)


async def test_those_without_a_vector_are_found_by_words_among_many(
    services: Services, tenant_conninfo: str
) -> None:
    """D10: a memory that waits for its vector is not out of reach."""
    await remember(tenant_conninfo, "ana", crowd(90), embedder=OfflineEmbedder())
    await remember(tenant_conninfo, "minh", [*crowd(90), Fact("Minh keeps bees")])
    found = await search(services, "bees", user="minh")
    assert contents(found)[0] == "Minh keeps bees"
    assert len(found.results) == 10


@pytest.mark.parametrize("ranking", ["balanced", "seed003"])
async def test_what_is_gone_never_stands_in_the_place_of_what_is_there(
    services: Services, tenant_conninfo: str, ranking: str
) -> None:
    """Q2: neither by vector, nor by words, nor by an entity, nor as the newest."""
    expired = [
        Fact(f"rye bread recipe {n}", entities=["Hoa"], expires_at=YESTERDAY) for n in range(300)
    ]
    old = datetime.now(UTC) - timedelta(days=300)
    there = [
        Fact("Once somebody baked rye bread", valid_from=old),
        Fact("She sings", entities=["Hoa"], valid_from=old),
    ]
    facts = [*crowd(120, valid_from=old), *expired, *there]
    await remember(tenant_conninfo, "ana", facts, embedder=OfflineEmbedder())
    found = await search(services, "rye bread recipe", ranking=ranking)
    assert contents(found)[0] == "Once somebody baked rye bread"
    assert len(found.results) == 10
    found = await search(services, "What of Hoa?", ranking=ranking, explain=True)
    (sings,) = [r for r in found.results if r.memory.content == "She sings"]
    assert sings.breakdown["entity"] > 0


async def test_full_text_counts_among_many(services: Services, tenant_conninfo: str) -> None:
    """D4: `seed003` has its text ranks, however many memories there are."""
    facts = [*crowd(100), Fact("Hoa bakes rye bread")]
    await remember(tenant_conninfo, "ana", facts, embedder=OfflineEmbedder())
    found = await search(services, "rye bread", ranking="seed003", explain=True)
    assert contents(found)[0] == "Hoa bakes rye bread"
    assert found.results[0].breakdown["fulltext"] > 0
    assert "fulltext" in found.results[0].matched_legs
