"""BM25 against an example worked by hand and against the formula written out term by term."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitherto_shared.text.bm25 import NO_SCORES, Scores, TermPostings, score, score_each


def test_an_example_worked_by_hand() -> None:
    # Three documents: 1 "tea tea milk", 2 "tea", 3 "sun sun sun sun": eight terms, 8/3 on average.
    tea = TermPostings("tea", [1, 2], [2, 1], [3, 1])
    milk = TermPostings("milk", [1], [1], [3])
    # idf(tea) = ln(1 + 1.5/2.5) = ln 1.6, idf(milk) = ln(1 + 2.5/1.5) = ln 8/3.
    # 1: 0.25 + 0.75 · 3/(8/3) = 1.09375; 2: 0.25 + 0.75 · 1/(8/3) = 0.53125.
    one = math.log(1.6) * 2 * 2.2 / (2 + 1.2 * 1.09375)
    one += math.log(8 / 3) * 1 * 2.2 / (1 + 1.2 * 1.09375)
    two = math.log(1.6) * 1 * 2.2 / (1 + 1.2 * 0.53125)
    assert one == pytest.approx(1.557420, abs=1e-6)
    assert two == pytest.approx(0.631455, abs=1e-6)
    assert score([tea, milk], 3, 8) == pytest.approx({1: one, 2: two})


def test_questions_whose_postings_are_read_together_score_like_each_alone() -> None:
    tea = [TermPostings("tea", [1, 2], [1, 2], [4, 9]), TermPostings("tea", [7], [1], [2])]
    milk = [TermPostings("milk", [2, 3], [1, 1], [9, 5])]
    # Forms of one word.
    went = [TermPostings("went", [3], [1], [5])]
    go = [TermPostings("go", [1, 3], [2, 1], [4, 5])]
    alone = {
        ("tea", "unheard"): tea,
        ("milk", "go", "went", "tea"): [*milk, *go, *went, *tea],
        ("unheard",): [],
    }
    together = score_each(alone, [*went, *tea, *milk, *go], 10, 50)
    assert [dict(each) for each in together] == [
        pytest.approx(dict(score(its, 10, 50))) for its in alone.values()
    ]


def test_counters_behind_the_postings_do_no_harm() -> None:
    for documents, total_terms in [(0, 0), (1, 3), (0, 9), (5, 0)]:
        rows = [TermPostings("tea", [1, 2, 3], [1, 2, 1], [4, 4, 0])]
        scores = score(rows, documents, total_terms)
        assert set(scores) == {1, 2, 3}, (documents, total_terms)
        assert all(math.isfinite(value) and value > 0 for value in scores.values())


def test_a_damaged_row_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"'tea'.*rebuild this user's keyword index"):
        score([TermPostings("tea", [1, 2], [1], [4, 4])], 10, 100)


def _reference(texts: dict[int, Counter[str]], terms: set[str]) -> dict[int, float]:
    """The formula, one document and one term at a time."""
    average = sum(text.total() for text in texts.values()) / len(texts)
    scores: dict[int, float] = defaultdict(float)
    for term in terms:
        having = sum(1 for text in texts.values() if text[term])
        idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for number, text in texts.items():
            if text[term]:
                norm = 1.2 * (1 - 0.75 + 0.75 * text.total() / average)
                scores[number] += idf * text[term] * (1.2 + 1) / (text[term] + norm)
    return dict(scores)


_TERMS = st.sampled_from("abcdef")
_COUNTS = st.dictionaries(_TERMS, st.integers(1, 9), min_size=1).map(Counter)
_TEXTS = st.dictionaries(st.integers(1, 10**6), _COUNTS, min_size=1, max_size=12)


@settings(deadline=None)
@given(
    texts=_TEXTS,
    terms=st.sets(_TERMS, min_size=1),
    segment=st.integers(1, 5),
    shuffle=st.randoms(use_true_random=False),
)
def test_scores_are_those_of_the_formula(
    texts: dict[int, Counter[str]],
    terms: set[str],
    segment: int,
    shuffle: Random,
) -> None:
    rows = []
    for term in sorted(terms):
        having = [number for number, text in texts.items() if text[term]]
        for start in range(0, len(having), segment):
            numbers = having[start : start + segment]
            frequencies = [texts[number][term] for number in numbers]
            lengths = [texts[number].total() for number in numbers]
            rows.append(TermPostings(term, numbers, frequencies, lengths))
    shuffle.shuffle(rows)
    total = sum(text.total() for text in texts.values())
    found = score(rows, len(texts), total)
    assert found == pytest.approx(_reference(texts, terms))


def test_places_are_by_number_with_the_best_first() -> None:
    assert Scores.of({2: 1.0, 5: 3.0, 3: 1.0}).places() == [0, 2, 3, 0, 1]
    assert NO_SCORES.places() == []
