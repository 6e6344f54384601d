"""Means, intervals and bars of a run, and how they are printed and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.comparison import difference
from benchmarks.locomo.measure import EmbedderRun
from benchmarks.locomo.report import locomo_part, metric_of
from benchmarks.report import BenchmarkResult, read_result, write_result
from tests.unit.benchmarks_locomo.runs import run, scored


def cells(measured: EmbedderRun, table: int) -> list[list[str]]:
    return [list(row) for row in locomo_part(measured).tables[table].rows if row is not None]


def verdicts(measured: EmbedderRun) -> list[bool | None]:
    return [bar.met for bar in locomo_part(measured).bars]


def test_other_rankings_are_held_against_the_default_on_the_same_questions() -> None:
    measured = run(scored(30, 40), scored(20, 40), scored(36, 40))
    (cosine,) = cells(measured, 1)
    assert cosine[:3] == ["facts", "cosine alone", "0.500"]
    assert cosine[3].startswith("-0.250 (-0.")
    assert locomo_part(measured).figures["facts R@10, cosine alone"] == 0.5
    before, after = (metric_of(scored(found, 40), "recall_10") for found in (30, 20))
    recall = difference(before, after)
    assert recall.low < -0.25 < recall.high < 0
    assert recall.verdict == "worse"
    # Paired: where both answer alike, chance has nothing to move.
    assert difference(before, before).verdict == "same"


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
