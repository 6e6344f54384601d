"""Two results side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.command import run as command
from benchmarks.comparison import differences, paired
from benchmarks.locomo.__main__ import BENCHMARK
from benchmarks.locomo.report import locomo_part
from benchmarks.report import BenchmarkResult, write_result
from tests.unit.benchmarks_locomo.runs import run, scored


def result(found: int, of: int = 40, *names: str) -> BenchmarkResult:
    scores = scored(found, of)
    runs = [run(scores, scores, scores, embedder=name) for name in names or ("onnx:model",)]
    return BenchmarkResult("locomo", [locomo_part(each) for each in runs])


def compare(folder: Path, one: BenchmarkResult, two: BenchmarkResult) -> int:
    write_result(folder / "a", one)
    write_result(folder / "b", two)
    return command(BENCHMARK, ["compare", str(folder / "a"), str(folder / "b")])


def test_compare_tells_better_from_unclear_and_names_the_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(tmp_path, result(10), result(30)) == 0
    shown = capsys.readouterr().out
    assert shown.count("better") == 9
    assert "+0.500" in shown
    assert "facts R@10: 20 questions won: q10, q11" in shown
    assert "lost" not in shown
    little = differences(*paired(result(20), result(21))[0])["facts R@10"]
    assert little.verdict == "unclear"


def test_only_questions_of_both_runs_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, part = result(10, 40), result(10, 20)
    assert differences(*paired(whole, part)[0])["facts R@10"].before == 0.5
    assert compare(tmp_path, whole, part) == 0
    assert "20 questions stand in one run only" in capsys.readouterr().out
    with pytest.raises(ValueError, match="none of their questions in common"):
        differences(*paired(whole, result(0, 0))[0])


def test_what_cannot_be_used_ends_with_2_and_without_data_it_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCOMO_DIR", raising=False)
    assert command(BENCHMARK, []) == 0
    assert "skipped: set LOCOMO_DIR" in capsys.readouterr().out
    monkeypatch.setenv("LOCOMO_DIR", str(tmp_path))
    assert command(BENCHMARK, []) == 2
    assert "locomo_dev_transcripts.jsonl" in capsys.readouterr().err
    assert command(BENCHMARK, ["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "a cannot be read" in capsys.readouterr().err
