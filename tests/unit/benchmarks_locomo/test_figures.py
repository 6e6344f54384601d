"""Means, intervals and bars of a run, and how they are printed and kept."""

from __future__ import annotations

from benchmarks.locomo.measure import EmbedderRun
from benchmarks.locomo.report import locomo_part
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
