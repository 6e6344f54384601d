"""The command's ends that need no service."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.command import run
from benchmarks.extraction.__main__ import BENCHMARK
from benchmarks.extraction.report import row_scores
from benchmarks.report import BenchmarkResult, ResultPart, write_result


def test_compare_prints_and_ends_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, met in (("a", 0), ("b", 1)):
        scores = row_scores([{"recall": (met, 1), "usd": (met / 1000, 1)}])
        part = ResultPart("m", {}, rows=["r1"], scores=scores)
        write_result(tmp_path / name, BenchmarkResult("extraction", [part]))
    assert run(BENCHMARK, ["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    shown = capsys.readouterr().out
    assert "+100.0 %" in shown
    assert "+1.00" in shown


def test_what_cannot_be_used_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(BENCHMARK, ["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert "a cannot be read" in capsys.readouterr().err
    assert run(BENCHMARK, ["--limit", "1", "--judge", "referee"]) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err
    monkeypatch.setenv("HITHERTO_EXTRACTOR", "oracle")
    assert run(BENCHMARK, ["--limit", "1", "--judge", "referee"]) == 2
    assert "HITHERTO_EXTRACTOR" in capsys.readouterr().err
    with pytest.raises(SystemExit) as raised:
        run(BENCHMARK, ["--language", "fr"])
    assert raised.value.code == 2
