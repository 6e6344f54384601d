"""Searches of users with more memories than a leg brings in (D3, Q2): the quick way and the exact.

Among many current memories the nearest are looked up without reading the memories themselves; where
that finds too few, everything is compared. Both must answer alike.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hitherto_shared.embeddings.offline import OfflineEmbedder
from tests.e2e.conftest import Services
from tests.e2e.test_search import contents, search
from tests.integration.retrieval.seed import Fact, remember

YESTERDAY = datetime.now(UTC) - timedelta(days=1)


def crowd(count: int, **more: object) -> list[Fact]:
    return [Fact(f"On day {n} they walked route {n}", **more) for n in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize("ranking", ["balanced", "weighted"])
async def test_what_is_gone_never_stands_in_the_place_of_what_is_there(
    services: Services, ranking: str
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
    await remember(services.conninfo, "ana", facts, embedder=OfflineEmbedder())
    found = await search(services, "rye bread recipe", ranking=ranking)
    assert contents(found)[0] == "Once somebody baked rye bread"
    assert len(found.results) == 10
    found = await search(services, "What of Hoa?", ranking=ranking, explain=True)
    (sings,) = [r for r in found.results if r.memory.content == "She sings"]
    assert sings.breakdown["entity"] > 0


async def test_full_text_counts_among_many(services: Services) -> None:
    """D4: `weighted` has its text ranks, however many memories there are."""
    facts = [*crowd(100), Fact("Hoa bakes rye bread")]
    await remember(services.conninfo, "ana", facts, embedder=OfflineEmbedder())
    found = await search(services, "rye bread", ranking="weighted", explain=True)
    assert contents(found)[0] == "Hoa bakes rye bread"
    assert found.results[0].breakdown["fulltext"] > 0
    assert "fulltext" in found.results[0].matched_legs
