"""Two results side by side."""

from __future__ import annotations

import pytest
from rich.console import Console

from benchmarks.comparison import Difference, differences, show_differences
from benchmarks.extraction.report import row_scores
from benchmarks.report import BenchmarkResult, ResultPart


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
