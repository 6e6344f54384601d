"""How lists of relevant memories are made and joined, with those of sealed ones (B6, H3)."""

from __future__ import annotations

from uuid import UUID

from hitherto_extraction.pipeline.sealed_memories import postings_of, tags_of
from hitherto_extraction.pipeline.selection import entities_named, joined, tags_named, within
from hitherto_extraction.storage.mentions import EntityNames
from hitherto_shared.model_api import estimate_tokens
from hitherto_shared.text.bm25 import Statistics, score
from hitherto_shared.text.normalise import fold
from hitherto_shared.text.terms import query_terms
from tests.unit.pipeline.situations import known

A, B, C, D = (UUID(int=n) for n in range(1, 5))


def test_what_stands_in_several_lists_comes_first() -> None:
    assert joined([[A, B, C], [C], []])[0] == C
    assert joined([[A], [B], [D]]) == [A, B, D]


def names(*spellings: str) -> list[EntityNames]:
    first, *others = spellings
    return [EntityNames(A, fold(first), others)]


def test_an_entity_is_found_in_any_spelling() -> None:
    for spellings, text in [
        (["Zoë"], "I phoned zoe yesterday."),
        (["Zoe", "Zoë M."], "ZOË M. was there"),
        (["Hà Nội"], "hôm qua tôi ở ha noi"),
        (["Acme Corp."], "working for ACME corp, since May"),
        (["佐藤"], "昨日佐藤さんに会いました"),
        (["C-3PO"], "the droid c-3po is here"),
    ]:
        assert entities_named(text, names(*spellings)) == [A]


def test_a_part_of_a_word_is_no_name() -> None:
    for name, text in [("Ann", "planning the annual fair"), ("Al", "always"), ("...", "...")]:
        assert entities_named(text, names(name)) == []


def test_tags_are_named_by_all_their_words() -> None:
    tags = ["coffee_brewing", "coffee", "cà_phê", "travel"]
    assert tags_named(query_terms("I brew coffee"), tags) == ["coffee_brewing", "coffee"]
    assert tags_named(query_terms("Tôi thích cà phê"), tags) == ["cà_phê"]
    assert tags_named([], tags) == []


def test_memories_keep_within_the_tokens() -> None:
    long, short = known(1, content="x" * 3_000), known(2, content="short")
    assert estimate_tokens(long.content) == 1_000
    assert within([long, short], 1_015) == [long]
    assert within([long, short], 1_014) == [short]


# Sealed memories stand in for an index of their own (H3).


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
