"""The keyword index of passages is read by corpus and user (D3)."""

from __future__ import annotations

from hitherto_retrieval.storage import passages
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import Statistics
from tests.integration.retrieval.questions import ANA, Reader, answer, words
from tests.integration.retrieval.seed import TENANT
from tests.integration.retrieval.seed_passages import (
    Outline,
    Paper,
    Turn,
    converse,
    hand_over,
    sum_up,
)


async def test_each_corpus_has_its_own_words(reader: Reader) -> None:
    await converse(reader.superuser, "ana", {"c": [Turn("swan"), Turn("swan swan lake")]})
    await sum_up(reader.superuser, "ana", [Outline("c", "about swans", title="Heron")])
    await hand_over(reader.superuser, "ana", [Paper("gmail", ["a swan"], title="Birds")])
    await converse(reader.superuser, "minh", {"c": [Turn("swan")]})
    await converse(reader.superuser, "ana", {"c": [Turn("swan")]}, tenant="another")

    found = await answer(reader, passages.postings(ANA, ["messages", "documents"], ["swan"]))
    assert {
        corpus: [(p.term, list(p.lexical_nos), list(p.frequencies), list(p.lengths)) for p in found]
        for corpus, found in found.items()
    } == {
        "memories": [],
        "messages": [("swan", [1, 2], [1, 2], [1, 3])],
        "documents": [("swan", [1], [1], [3])],
    }
    nothing = await answer(reader, passages.postings(ANA, ["summaries"], ["nonsense"]))
    assert nothing == {"memories": [], "summaries": []}
    counted = await answer(reader, passages.statistics(ANA))
    assert counted["messages"] == Statistics(2, 4)
    assert set(counted) == {"messages", "summaries", "documents"}
    assert await answer(reader, passages.statistics(Scope(TENANT, "nobody"))) == {}


async def test_segments_of_a_frequent_word_all_count(reader: Reader) -> None:
    turns = [Turn(f"swan {n}") for n in range(600)]
    await converse(reader.superuser, "ana", {"c": turns})
    scores = await words(reader, "ana", "messages", "swan")
    assert set(scores) == set(range(1, 601))
