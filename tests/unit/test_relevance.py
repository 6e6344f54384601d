"""Where relevance ends: measured against the user's own texts, in any language and model (D17)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hitherto_retrieval.search.ranking.ranking import QueryIntent, RankedCandidate
from hitherto_retrieval.search.ranking.relevance import Relevance
from hitherto_retrieval.storage.candidate import Candidate

NOW = datetime(2026, 11, 28, tzinfo=UTC)
MINILM, ADA = "onnx:all-MiniLM-L6-v2-int8", "text-embedding-ada-002"


def candidate(
    number: int, cosine: float | None, bm25: float = 0.0, role: str = "user"
) -> Candidate:
    key = ("c1", number)
    return Candidate("message", key, NOW, NOW, "c1", bm25=bm25, cosine=cosine, role=role)


def told(
    best: Candidate, others: Sequence[float | None], model: str = MINILM, *, broad: bool = False
) -> int:
    """How many of the best candidate and the others are told."""
    candidates = [best, *(candidate(n, cosine) for n, cosine in enumerate(others, 2))]
    ranked = [RankedCandidate(each, 1.0, (), ()) for each in candidates]
    intent = QueryIntent(NOW, broad=broad)
    return len(Relevance(intent, model, {"message": 10.0}).enough(ranked, None))


KNOWN = [0.02 + 0.005 * n for n in range(40)]
"""Cosines of texts in a language that the model knows: unrelated ones are far from a question."""
UNKNOWN = [0.5 + 0.005 * n for n in range(40)]
"""In one that it does not know, everything is near everything."""


def test_an_answer_rises_above_the_bulk() -> None:
    cases: list[tuple[Candidate, Sequence[float | None], str, bool]] = [
        (candidate(1, 0.7), KNOWN, MINILM, True),
        (candidate(1, 0.4), KNOWN, MINILM, False),
        (candidate(1, 0.4, bm25=4.0), KNOWN, MINILM, True),
        # What an assistant said counts less by its words too.
        (candidate(1, 0.3, bm25=6.0, role="assistant"), KNOWN, MINILM, False),
        (candidate(1, 0.7, bm25=4.0, role="assistant"), UNKNOWN, MINILM, False),
        # The nearest of many that are near says nothing, and the same cosine among others does.
        (candidate(1, 0.75), UNKNOWN, MINILM, False),
        (candidate(1, 0.75, bm25=8.0), UNKNOWN, MINILM, True),
        # Where all vectors are the same, words decide.
        (candidate(1, 1.0), [1.0] * 40, MINILM, False),
        (candidate(1, 1.0, bm25=12.0), [1.0] * 40, MINILM, True),
        # Of a few texts, the model says what is usual.
        (candidate(1, 0.75), UNKNOWN[:5], MINILM, True),
        (candidate(1, 0.75), UNKNOWN[:5], ADA, False),
        # Without vectors, a word is enough, unless nearly all of the user's texts have it.
        (candidate(1, None, bm25=0.1), [None] * 40, "", True),
        (candidate(1, None, bm25=0.03), [None] * 40, "", False),
        (candidate(1, None), [None] * 40, "", False),
    ]
    for best, others, model, answers in cases:
        assert bool(told(best, others, model)) is answers


def test_what_is_near_is_told_beside_an_answer_and_not_alone() -> None:
    assert told(candidate(1, 0.8, bm25=8.0), [0.3, *KNOWN[:30]]) == 2
    assert told(candidate(1, 0.3), [0.3, *KNOWN[:30]]) == 0
    # Many things are each a little of what a question for all of them asks.
    assert told(candidate(1, 0.6), [0.45, *KNOWN[:30]], broad=True) == 2


def test_a_question_of_usual_words_alone_is_answered_by_the_texts_that_have_them() -> None:
    best = RankedCandidate(candidate(1, None, bm25=0.03), 1.0, (), ())
    intent = QueryIntent(NOW)
    assert Relevance(intent, "", {"message": 0.03}).enough([best], None) == [best]
