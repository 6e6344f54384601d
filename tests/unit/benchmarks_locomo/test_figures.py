"""Means, intervals and bars of a run, and how they are printed and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.locomo.measure import EmbedderRun
from benchmarks.locomo.report import locomo_part
from benchmarks.report import BenchmarkResult, read_result, write_result
from tests.unit.benchmarks_locomo.runs import run, scored


def verdicts(measured: EmbedderRun) -> list[bool | None]:
    return [bar.met for bar in locomo_part(measured).bars]


def test_bars_depend_on_the_embedder_and_on_cosine_alone() -> None:
    good = locomo_part(run(scored(71, 100), scored(60, 100), scored(86, 100)))
    assert [bar.met for bar in good.bars] == [True] * 5
    assert [bar.bar for bar in good.bars][:2] == ["≥ 0.69, aim 0.72", "≥ 0.60, aim 0.62"]
    poor = run(scored(66, 100), scored(60, 100), scored(78, 100))
    assert verdicts(poor) == [False, True, False, True, False]
    offline = run(scored(66, 100), scored(57, 100), scored(79, 100), kind="offline")
    assert verdicts(offline) == [True] * 4
    # They were set on LoCoMo; other data have other scores.
    assert not verdicts(run(scored(1, 9), scored(1, 9), scored(1, 9), data="EVAL_DIR"))


def test_the_file_holds_the_scores_of_every_question(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    part = locomo_part(run(scored(1, 2), scored(0, 2), scored(2, 2)))
    write_result(path, BenchmarkResult("locomo", [part]))
    (found,) = read_result(path, "locomo").parts
    assert list(found.scores["facts R@10"].above) == [1.0, 0.0]
    assert list(found.rows) == ["q0", "q1"]
    assert found.bars[0].met is False
    path.write_text('{"format": 1}', "utf-8")
    with pytest.raises(ValueError, match="write it anew"):
        read_result(path, "locomo")
