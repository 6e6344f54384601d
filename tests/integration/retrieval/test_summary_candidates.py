"""Summaries that a search weighs (D3, D8, F2)."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hitherto_retrieval.storage import summary_candidates
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.database.pool import Database
from tests.integration.retrieval.questions import (
    Reader,
    keys,
    nearest,
    unit_vectors,
    weighed,
    words,
)
from tests.integration.retrieval.seed import Fact, remember
from tests.integration.retrieval.seed_passages import Outline, sum_up

NOW = datetime.now(UTC)


def find(reader: Database, **asked: Any) -> Awaitable[list[Candidate]]:
    return weighed(reader, summary_candidates, **asked)


EVERYTHING = PassageFilters()
FROM_EVER = PassageFilters(created_after=NOW - timedelta(days=9999))


async def test_repeats_on_one_connection_keep_full_recall(reader: Reader) -> None:
    crowd = [Outline(f"c{n}", "noise", vector=v) for n, v in enumerate(unit_vectors(100, 3))]
    await sum_up(reader.superuser, "crowd", crowd)
    vectors = unit_vectors(300, 1)
    outlines = [
        Outline(f"c{n}", f"summary {n}", said_at=NOW - timedelta(days=n), vector=vector)
        for n, vector in enumerate(vectors)
    ]
    await sum_up(reader.superuser, "ana", outlines)
    names = [outline.conversation_id for outline in outlines]
    recent = PassageFilters(created_after=NOW - timedelta(days=99, hours=1))
    for question in unit_vectors(20, 2):
        found = await find(reader, vector=question, wanted=60)
        assert keys(found) == nearest(names, vectors, question, 60)
        found = await find(reader, filters=recent, vector=question)
        assert keys(found) == nearest(names, vectors, question, 10, lambda n: n < 100)


@pytest.mark.parametrize("filters", [EVERYTHING, FROM_EVER], ids=["all", "filtered"])
async def test_vectors_of_earlier_wordings_do_not_stand_in_the_way(
    reader: Reader, filters: PassageFilters
) -> None:
    """faults.md row 24: what is stale costs nobody a place, and has no cosine."""
    question, *others = unit_vectors(6, 4)
    stale = [Outline(f"old{n}", "swan", vector=question, stale=True) for n in range(20)]
    sound = [Outline(f"new{n}", "x", vector=vector) for n, vector in enumerate(others)]
    await sum_up(reader.superuser, "ana", [*stale, *sound])
    found = await find(reader, filters=filters, vector=question, wanted=5)
    assert keys(found) == {f"new{n}" for n in range(5)}
    (by_words,) = await find(reader, filters=filters, bm25={1: 1.0}, vector=None)
    assert (by_words.key, by_words.cosine) == ("old0", None)
    both = await find(reader, filters=filters, bm25={1: 1.0}, vector=question, wanted=5)
    assert {c.key for c in both if c.cosine is None} == {"old0"}


@pytest.mark.parametrize("filters", [EVERYTHING, FROM_EVER], ids=["all", "filtered"])
async def test_features(reader: Reader, filters: PassageFilters) -> None:
    question, other = unit_vectors(2, 5)
    said_at = NOW - timedelta(days=3)
    outlines = [
        Outline("c", "Nói về Hà Nội", "Chuyến đi", said_at, vector=other),
        Outline("d", "", "Only a title"),
    ]
    await sum_up(reader.superuser, "ana", outlines)
    scores = await words(reader, "ana", "summaries", "ha noi")
    (found,) = await find(reader, filters=filters, bm25=scores, vector=question, text_query="")
    assert (found.kind, found.key, found.conversation_id) == ("summary", "c", "c")
    assert (found.happened_at, found.created_at > said_at) == (said_at, True)
    assert (found.bm25, found.words) == (scores[1], "Chuyến đi\nNói về Hà Nội")
    assert found.cosine == pytest.approx(float(question @ other), abs=1e-3)
    # Nothing is known of when it was said: then it counts from when it was summed up.
    (bare,) = await find(reader, filters=filters, bm25={2: 1.0}, text_query="")
    assert (bare.words, bare.happened_at) == ("Only a title", bare.created_at)
    (wordless,) = await find(reader, filters=filters, bm25={2: 1.0})
    assert wordless.words == ""
    assert await find(reader, filters=filters) == []


FILTERED = {
    "conversation": (PassageFilters(conversation_id="kim"), {"kim"}),
    "after": (PassageFilters(created_after=NOW - timedelta(days=5)), {"lan"}),
    "before": (PassageFilters(created_before=NOW - timedelta(days=5)), {"kim"}),
    "entity": (PassageFilters(entity="dự án kim"), {"kim"}),
    "unknown entity": (PassageFilters(entity="nobody"), set()),
    "no summary has metadata": (PassageFilters(metadata={"a": 1}), set()),
    "sources of documents": (PassageFilters(source_types=["gmail"]), {"kim", "lan"}),
}


async def test_filters_return_all_that_pass(reader: Reader) -> None:
    fact = Fact("Kim is a project", entities=["Dự án Kim"], conversation_id="kim")
    await remember(reader.superuser, "ana", [fact])
    question, first, second, third = unit_vectors(4, 6)
    outlines = [
        Outline("kim", "swan", said_at=NOW - timedelta(days=100), vector=first),
        Outline("lan", "swan", said_at=NOW - timedelta(days=1), vector=second),
    ]
    await sum_up(reader.superuser, "ana", outlines)
    theirs = [Outline(name, "swan", vector=third) for name in ("kim", "lan", "other")]
    await sum_up(reader.superuser, "minh", theirs)
    await sum_up(reader.superuser, "ana", theirs, tenant="another")
    scores = await words(reader, "ana", "summaries", "swan")
    for name, (filters, expected) in FILTERED.items():
        for _ in range(7):
            assert keys(await find(reader, filters=filters, vector=question)) == expected, name
            found = await find(reader, filters=filters, bm25=scores, vector=question)
            assert keys(found) == expected, name
            assert all(c.cosine != pytest.approx(float(question @ third), abs=1e-4) for c in found)
