"""Sealed memories stand in for an index of their own (H3)."""

from __future__ import annotations

from dataclasses import replace

from hitherto_extraction.pipeline.operations import Closure, Occasion, Plan, Rewrite
from hitherto_extraction.pipeline.sealed_memories import postings_of, tags_of
from hitherto_extraction.pipeline.write import events_of
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


def test_h3_the_history_of_what_is_sealed_has_no_words() -> None:
    before = known(6, "Ana takes zolpidem", tags=("rx",))
    after = replace(before, content="Ana takes zolpidem 10 mg", version=before.version + 1)
    clear = known(7, "Ana drinks tea")
    plan = Plan(
        rewrites=[Rewrite(before, after, "updated", "made more precise", None, "zolpidem")],
        closures=[
            Closure(clear, "contradicted", 0.5, clear.valid_from, before.memory_id, "zolpidem"),
            Closure(known(8, "Ana runs"), "achieved", 0.5, clear.valid_from, None, "she ran"),
        ],
        sealed=frozenset({before.memory_id}),
    )
    occasion = Occasion(None, None, clear.valid_from)
    told = events_of(plan, occasion, quoted=True)
    assert "zolpidem" not in repr(told)
    assert [event.reason for event in told] == ["made more precise", "contradicted", "she ran"]
    # Of a user who encrypts nothing that a model says of the reasons is kept.
    told = events_of(replace(plan, sealed=frozenset()), occasion, quoted=False)
    assert [event.reason for event in told] == ["made more precise", "contradicted", "achieved"]
