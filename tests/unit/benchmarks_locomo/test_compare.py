"""Two results side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.command import run as command
from benchmarks.locomo.__main__ import BENCHMARK
from benchmarks.locomo.report import as_json, differences, pairs
from tests.unit.benchmarks_locomo.runs import run, scored


def result(found: int, of: int = 40, *names: str) -> dict[str, object]:
    scores = scored(found, of)
    return as_json(
        [run(scores, scores, scores, embedder=name) for name in names or ("onnx:model",)]
    )


def test_compare_tells_better_from_unclear_and_names_the_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, found in (("a", 10), ("b", 30)):
        tmp_path.joinpath(name).write_text(json.dumps(result(found)), "utf-8")
    assert command(BENCHMARK, ["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    shown = capsys.readouterr().out
    assert shown.count("better") == 9
    assert "+0.500" in shown
    assert "20 questions won: q10, q11" in shown
    assert "lost" not in shown
    little = differences(*pairs(result(20), result(21))[0], "facts")["recall_10"]
    assert little.verdict == "unclear"


def test_only_questions_of_both_runs_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, part = result(10, 40), result(10, 20)
    assert differences(*pairs(whole, part)[0], "facts")["recall_10"].before == 0.5
    for name, found in (("a", whole), ("b", part)):
        tmp_path.joinpath(name).write_text(json.dumps(found), "utf-8")
    assert command(BENCHMARK, ["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "20 questions stand in one run only" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no question in common"):
        differences(*pairs(whole, result(0, 0))[0], "facts")


def test_runs_of_one_embedder_belong_together_and_so_do_the_only_ones() -> None:
    one, two = result(1, 2, "offline-hash-1", "onnx:model"), result(1, 2, "onnx:model")
    assert [run["embedder"] for run, _ in pairs(one, two)] == ["onnx:model"]
    alone = pairs(result(1, 2, "offline-hash-1"), two)
    assert [(a["embedder"], b["embedder"]) for a, b in alone] == [("offline-hash-1", "onnx:model")]
    with pytest.raises(ValueError, match="no embedder in common"):
        pairs(one, result(1, 2, "api-a", "api-b"))


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
