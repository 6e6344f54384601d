"""Sealed memories stand in for an index of their own (H3)."""

from __future__ import annotations

from hitherto_extraction.pipeline.sealed_memories import postings_of, tags_of
from hitherto_shared.text.bm25 import Statistics, score
from hitherto_shared.text.terms import query_terms
from tests.unit.pipeline.situations import known


def test_h3_sealed_words_are_weighed_like_indexed_ones() -> None:
    pills = known(7, "Ana takes zolpidem at night")
    tea = known(9, "Ana drinks tea", keywords=("Zolpidem",))
    postings, statistics = postings_of(
        [pills, tea], query_terms("zolpidem, more zolpidem at night"), Statistics(10, 40)
    )
    assert statistics.documents == 10
    assert statistics.terms > 40
    scores = score(postings, statistics.documents, statistics.terms)
    assert set(scores) == {7, 9}
    assert scores[7] > scores[9]


def test_h3_tags_of_sealed_memories_come_after_those_in_use() -> None:
    sealed = [known(4, "a", tags=("rx", "tea")), known(5, "b", tags=("rx",))]
    assert tags_of(["tea", "home"], sealed, 10) == ["tea", "home", "rx"]
    assert tags_of(["tea", "home"], sealed, 2) == ["tea", "home"]
