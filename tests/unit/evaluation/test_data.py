"""I6: the data set itself, and the rules held against it: a perfect run scores 1 everywhere."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from rich.console import Console

from benchmarks.comparison import Difference, differences, show_differences
from benchmarks.extraction.matching import Nearness, violated
from benchmarks.extraction.report import row_scores
from benchmarks.extraction.rows import CATEGORIES, LANGUAGES, Forbidden, load
from benchmarks.extraction.scores import LOWER_IS_BETTER, SCORES, add, judge_row, ratio
from benchmarks.extraction.support import unsupported
from benchmarks.extraction.wording import contains_all, language_of
from benchmarks.report import BenchmarkResult, ResultPart
from tests.unit.evaluation.observations import perfect
from tests.unit.evaluation.observations import row as row_of

ROWS = load()
AMOUNTS = {"input_tokens", "output_tokens", "usd", "usd_reference"}


def test_i6_at_least_sixty_transcripts_in_three_languages() -> None:
    assert len(ROWS) >= 60
    assert all(count >= 15 for count in Counter(row.language for row in ROWS).values())
    assert {row.language for row in ROWS} == set(LANGUAGES)


def test_every_language_has_every_category() -> None:
    for language in LANGUAGES:
        found = {row.category for row in ROWS if row.language == language}
        assert found == set(CATEGORIES), language


def test_i6_both_examples_of_document_002_section_9() -> None:
    first, second = (row for row in ROWS if row.source == "document 002, section 9")
    assert [message.role for message in first.transcript] == ["user", "assistant"]
    assert first.transcript[0].content == (
        "I really hate when my resume sounds like everyone else's. Keep it real, no fluff."
    )
    assert first.expected[0].types == ("preference",)
    assert first.expected[0].contains == ("authentic", "direct", "no fluff")
    assert first.expected[0].importance_min == 0.6
    assert second.transcript[0].content.endswith("ideally under 30 people.")
    assert second.expected[0].types == ("goal",)
    assert second.expected[0].contains == ("CTO", "fintech", "early-stage")
    assert second.expected[0].importance_min == 0.8


def test_a_perfect_answer_to_a_row_scores_one() -> None:
    for row in ROWS:
        if row.source:
            continue
        counts = add([judge_row(perfect(row)).counts])
        for score in set(SCORES) - AMOUNTS:
            best = 0.0 if score in LOWER_IS_BETTER else 1.0
            assert ratio(counts, score) in (None, best), (row.id, score)


def test_what_is_optional_is_no_invention_and_not_forbidden_either() -> None:
    for row in ROWS:
        for item in row.expected:
            if item.says:
                assert unsupported(item.says, row) == [], row.id
                assert language_of(item.says) == row.language, row.id


def test_nearly_every_statement_of_another_conversation_counts_as_made_up() -> None:
    strange = [
        bool(unsupported(item.says, row))
        for row in ROWS
        for other in ROWS
        if other.language == row.language and other.category != row.category
        for item in other.required
        if item.says
    ]
    assert sum(strange) / len(strange) > 0.98


# Two results side by side.


def result(recall: list[tuple[int, int]]) -> BenchmarkResult:
    counts = [{"recall": pair, "traps": (pair[1] - pair[0], 1)} for pair in recall]
    scores = {
        name: score
        for name, score in (row_scores(counts) if counts else {}).items()
        if name in ("recall", "traps")
    }
    rows = [f"r{number}" for number in range(len(recall))]
    return BenchmarkResult("extraction", [ResultPart("m", {}, rows=rows, scores=scores)])


def compared(before: BenchmarkResult, after: BenchmarkResult) -> list[Difference]:
    return list(differences(before.parts[0], after.parts[0]).values())


def test_a_clear_difference_is_called_better_or_worse_by_what_is_good() -> None:
    before, after = result([(0, 1)] * 40), result([(1, 1)] * 36 + [(0, 1)] * 4)
    recall, traps = compared(before, after)
    assert (recall.before, recall.after) == (0.0, 0.9)
    assert 0.75 < recall.low <= 0.9 <= recall.high <= 1.0
    assert (recall.verdict, traps.verdict) == ("better", "better")
    assert {item.verdict for item in compared(after, before)} == {"worse"}


def test_one_row_of_many_proves_nothing() -> None:
    before, after = result([(1, 2)] * 20), result([(2, 2)] + [(1, 2)] * 19)
    recall = compared(before, after)[0]
    assert recall.delta == pytest.approx(0.025)
    assert recall.verdict == "unclear"


def test_a_run_does_not_differ_from_itself_and_the_interval_is_the_same_every_time() -> None:
    run = result([(1, 1), (0, 1), (1, 2)])
    assert all(item.verdict == "same" for item in compared(run, run))
    other = result([(0, 1), (0, 1), (2, 2)])
    assert compared(run, other) == compared(run, other)


def test_only_rows_of_both_runs_count(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = result([(1, 1)] * 3), result([(1, 1), (0, 1)])
    assert compared(before, after)[0].before == 1.0
    show_differences(before, after, Console(width=120))
    shown = capsys.readouterr().out
    assert "1 rows stand in one run only" in shown
    assert "1 rows lost: r1" in shown
    with pytest.raises(ValueError, match="none of their rows in common"):
        compared(before, result([]))


# The rules by which words are compared, languages told and inventions found.


def test_contained_terms() -> None:
    for text, terms, found in [
        ("The user prefers TEA", ("prefer", "tea"), True),
        ("The user steams milk", ("tea",), False), ("Người dùng sống ở Hà Nội", ("ha noi",), True),
        ("ユーザーはiDeCoとNISAを使う", ("NISA",), True), ("It costs 1200 euros", ("200",), False),
        ("It costs 1,200 euros", ("200",), False), ("It costs 20 euros", ("2",), False),
        ("It costs 20 euros", (("twenty", "20"),), True), ("ユーザーは１２歳", ("12歳",), True),
        ("Mary’s dog", ("mary's",), True),
    ]:  # fmt: skip
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
        findings = unsupported(text, row_of("I live in Porto with my two cats."))
        assert findings == ([finding] if finding else []), text


def test_forbidden_words_patterns_and_what_excuses_them() -> None:
    rules = [
        Forbidden(contains=("vegan",), unless=("Mai", "sister"), because="it is the sister"),
        Forbidden(pattern=r"\byesterday\b", because="relative"),
    ]
    assert violated("The user is vegan.", rules) == [0]
    assert violated("The user's sister is vegan.", rules) == []
    assert violated("Yesterday the user's sister left.", rules) == [1]


def test_nearness_stands_in_for_words_but_not_for_numbers() -> None:
    said = "I live in Porto with my two cats."
    vector = np.array([1.0, 0.0], dtype=np.float32)
    other, wrong = "The user shares a home by the sea", "The user shares a home with 7 felines"
    near = Nearness({said: vector, other: vector, wrong: vector}, 0.85)
    assert unsupported(other, row_of(said)) != []
    assert unsupported(other, row_of(said), near) == []
    assert unsupported(wrong, row_of(said), near) == ["number 7"]
