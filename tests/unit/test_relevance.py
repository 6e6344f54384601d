"""Where relevance ends: measured against the user's own texts, in any language and model (D17)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hitherto_retrieval.search.ranking.ranking import QueryIntent, RankedCandidate
from hitherto_retrieval.search.ranking.relevance import Relevance
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_shared.database.fragments import Fragment, expanded, fragments
from tools.tree.scope_of_statements import statements

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


# Parts of statements that several of them share.


SERVICES = Path(__file__).resolve().parents[2] / "services"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "ages": Fragment((), "SELECT id, age FROM people WHERE team = %(team)s"),
        "is_older": Fragment(("person", "than"), ":person.age > :than::int"),
        "elders": Fragment((), "SELECT id FROM @ages AS a WHERE @is_older(a, %(limit)s)"),
    }
    monkeypatch.setattr("hitherto_shared.database.fragments.fragments", lambda: found)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("statement", "whole"),
    [
        ("SELECT a @> b, 'x@yard.org' WHERE c = '@'", "SELECT a @> b, 'x@yard.org' WHERE c = '@'"),
        (
            "SELECT 1 FROM @ages AS a;",
            "SELECT 1 FROM (SELECT id, age FROM people WHERE team = %(team)s) AS a;",
        ),
        (
            "WHERE NOT @is_older(p, greatest(ages[1], (SELECT 2, 3)))",
            "WHERE NOT (p.age > greatest(ages[1], (SELECT 2, 3))::int)",
        ),
        (
            "FROM @elders AS e",
            "FROM (SELECT id FROM (SELECT id, age FROM people WHERE team = %(team)s) AS a"
            " WHERE (a.age > %(limit)s::int)) AS e",
        ),
    ],
)
def test_a_statement_gets_the_text_of_what_it_names(statement: str, whole: str) -> None:
    assert expanded(statement) == whole


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    "statement",
    ["FROM @nothing AS n", "WHERE @is_older(p)", "FROM @ages(p) AS a", "WHERE @is_older(p, (1)"],
)
def test_what_cannot_be_expanded_is_refused(statement: str) -> None:
    with pytest.raises(ValueError, match=r"no fragment @\w+ takes \d|no parenthesis closes"):
        expanded(statement)


def test_every_fragment_is_used() -> None:
    """By a statement of a service, or by another fragment."""
    texts = [path.read_text("utf-8") for path in SERVICES.rglob("storage/**/*.py")]
    texts += [fragment.text for fragment in fragments().values()]
    named = set(re.findall(r"@(\w+)", "\n".join(texts)))
    assert sorted(set(fragments()) - named) == []


def test_every_statement_names_fragments_that_there_are() -> None:
    """`statements` expands each of them."""
    assert not any(re.search(r"(?<!\w)@[a-z]\w+", text) for _, _, text in statements())
