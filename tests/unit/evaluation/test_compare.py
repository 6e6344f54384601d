"""Two results side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.comparison import read_result
from benchmarks.extraction.report import FORMAT, differences, show_differences


def result(recall: list[tuple[int, int]]) -> dict[str, Any]:
    rows = [
        {"id": f"r{number}", "counts": {"recall": list(pair), "traps": [pair[1] - pair[0], 1]}}
        for number, pair in enumerate(recall)
    ]
    return {
        "format": 1,
        "model": "m",
        "extractor": "openai",
        "prompt_version": "p",
        "rows": rows,
    }


def test_a_clear_difference_is_called_better_or_worse_by_what_is_good() -> None:
    before, after = result([(0, 1)] * 40), result([(1, 1)] * 36 + [(0, 1)] * 4)
    recall, traps = differences(before, after)
    assert (recall.score, recall.before, recall.after) == ("recall", 0.0, 0.9)
    assert 0.75 < recall.low <= 0.9 <= recall.high <= 1.0
    assert (recall.verdict, traps.verdict) == ("better", "better")
    assert {item.verdict for item in differences(after, before)} == {"worse"}


def test_one_row_of_many_proves_nothing() -> None:
    before, after = result([(1, 2)] * 20), result([(2, 2)] + [(1, 2)] * 19)
    recall = differences(before, after)[0]
    assert recall.delta == pytest.approx(0.025)
    assert recall.verdict == "unclear"


def test_a_run_does_not_differ_from_itself_and_the_interval_is_the_same_every_time() -> None:
    run = result([(1, 1), (0, 1), (1, 2)])
    assert all(item.verdict == "same" for item in differences(run, run))
    other = result([(0, 1), (0, 1), (2, 2)])
    assert differences(run, other) == differences(run, other)


def test_only_rows_of_both_runs_count(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = result([(1, 1)] * 3), result([(1, 1), (0, 1)])
    assert differences(before, after)[0].before == 1.0
    show_differences(before, after, Console(width=120))
    shown = capsys.readouterr().out
    assert "1 rows stand in one run only" in shown
    assert "1 rows lost: r1" in shown
    with pytest.raises(ValueError, match="no row in common"):
        differences(before, result([]))


def test_a_file_that_is_no_result_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(ValueError, match=r"a\.json cannot be read"):
        read_result(path, FORMAT)
    path.write_text("{", "utf-8")
    with pytest.raises(ValueError, match="is not JSON"):
        read_result(path, FORMAT)
    path.write_text(json.dumps([1]), "utf-8")
    with pytest.raises(ValueError, match="no result of this version"):
        read_result(path, FORMAT)
    path.write_text(json.dumps(result([(1, 1)])), "utf-8")
    assert read_result(path, FORMAT)["model"] == "m"
