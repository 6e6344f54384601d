"""The keyword index of passages is read by corpus and user (D3)."""

from __future__ import annotations

import pytest

from hitherto_retrieval.storage import passages
from hitherto_shared.database.pool import Database
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import Statistics
from hitherto_shared.text.terms import query_terms
from tests.integration.retrieval.questions import answer, words
from tests.integration.retrieval.seed import TENANT
from tests.integration.retrieval.seed_passages import (
    Outline,
    Paper,
    Turn,
    converse,
    hand_over,
    sum_up,
)

ANA = Scope(TENANT, "ana")


async def test_each_corpus_has_its_own_words(reader: Database, superuser_conninfo: str) -> None:
    await converse(superuser_conninfo, "ana", {"c": [Turn("swan"), Turn("swan swan lake")]})
    await sum_up(superuser_conninfo, "ana", [Outline("c", "about swans", title="Heron")])
    await hand_over(superuser_conninfo, "ana", [Paper("gmail", ["a swan"], title="Birds")])
    await converse(superuser_conninfo, "minh", {"c": [Turn("swan")]})
    await converse(superuser_conninfo, "ana", {"c": [Turn("swan")]}, tenant="another")

    found = await answer(reader, passages.postings(ANA, ["messages", "documents"], ["swan"]))
    assert {
        corpus: [(p.term, list(p.lexical_nos), list(p.frequencies), list(p.lengths)) for p in found]
        for corpus, found in found.items()
    } == {
        "messages": [("swan", [1, 2], [1, 2], [1, 3])],
        "documents": [("swan", [1], [1], [3])],
    }
    nothing = await answer(reader, passages.postings(ANA, ["summaries"], ["nonsense"]))
    assert nothing == {"summaries": []}
    counted = await answer(reader, passages.statistics(ANA))
    assert counted["messages"] == Statistics(2, 4)
    assert set(counted) == {"messages", "summaries", "documents"}
    assert await answer(reader, passages.statistics(Scope(TENANT, "nobody"))) == {}


async def test_segments_of_a_frequent_word_all_count(
    reader: Database, superuser_conninfo: str
) -> None:
    turns = [Turn(f"swan {n}") for n in range(600)]
    await converse(superuser_conninfo, "ana", {"c": turns})
    scores = await words(reader, "ana", "messages", "swan")
    assert set(scores) == set(range(1, 601))


@pytest.mark.parametrize(
    ("written", "asked"), [("Hà Nội", "ha noi"), ("東京タワー", "東京"), ("서울에", "서울")]
)
async def test_words_of_any_language_in_every_corpus(
    reader: Database, superuser_conninfo: str, written: str, asked: str
) -> None:
    await converse(superuser_conninfo, "ana", {"c": [Turn(written), Turn("x")]})
    await sum_up(superuser_conninfo, "ana", [Outline("c", written), Outline("d", "x")])
    await hand_over(superuser_conninfo, "ana", [Paper("gdrive", [written, "x"])])
    assert query_terms(asked)
    for corpus in ("messages", "summaries", "documents"):
        assert set(await words(reader, "ana", corpus, asked)) == {1}
