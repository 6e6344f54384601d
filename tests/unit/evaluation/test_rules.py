"""The rules by which words are compared, languages told and inventions found."""

from __future__ import annotations

import numpy as np

from benchmarks.extraction.matching import Nearness
from benchmarks.extraction.support import unsupported
from benchmarks.extraction.wording import contains_all, language_of
from tests.unit.evaluation.observations import row


def test_contained_terms() -> None:
    for text, terms, found in [
        ("The user prefers TEA", ("prefer", "tea"), True),
        ("The user steams milk", ("tea",), False),
        ("Người dùng sống ở Hà Nội", ("ha noi",), True),
        ("ユーザーはiDeCoとNISAを使う", ("NISA",), True),
        ("It costs 1200 euros", ("200",), False),
        ("It costs 1,200 euros", ("200",), False),
        ("It costs 20 euros", ("2",), False),
        ("It costs 20 euros", (("twenty", "20"),), True),
        ("ユーザーは１２歳", ("12歳",), True),
        ("Mary’s dog", ("mary's",), True),
    ]:
        assert contains_all(text, terms) is found


def test_b7_the_language_of_a_statement() -> None:
    for text, language in [
        ("The user works at Công ty Hòa Phát in Đà Nẵng.", "en"),
        ("Team của người dùng đang migrate sang microservices.", "vi"),
        ("ユーザーのcodeはGoで書かれている。", "ja"),
        ("Thích phở", "vi"),
        ("Kubernetes", None),
        ("", None),
    ]:
        assert language_of(text) == language


def test_what_the_conversation_does_not_carry() -> None:
    for text, finding in [
        ("The user has lived in Porto with two cats since 2026-03-01.", ""),
        ("The user has 2 cats.", ""),
        ("The user has 3 cats.", "number 3"),
        ("The user has lived in Porto since 1987.", "number 1987"),
        ("The user lives in Porto and calls it “the best of towns”.", "quote the best of towns"),
        ("The user collects antique typewriters and stamps.", "words 0 of 4"),
    ]:
        findings = unsupported(text, row("I live in Porto with my two cats."))
        assert findings == ([finding] if finding else [])


def test_nearness_stands_in_for_words_but_not_for_numbers() -> None:
    said = "I live in Porto with my two cats."
    vector = np.array([1.0, 0.0], dtype=np.float32)
    other, wrong = "The user shares a home by the sea", "The user shares a home with 7 felines"
    near = Nearness({said: vector, other: vector, wrong: vector}, 0.85)
    assert unsupported(other, row(said)) != []
    assert unsupported(other, row(said), near) == []
    assert unsupported(wrong, row(said), near) == ["number 7"]
