"""Means, intervals and bars of a run, and how they are printed and kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.comparison import read_result
from benchmarks.locomo.figures import bars, groups, rankings
from benchmarks.locomo.report import FORMAT, as_json, show
from tests.unit.benchmarks_locomo.runs import run, scored


def test_groups_hold_all_questions_and_each_category() -> None:
    measured = run(scored(30, 40), scored(20, 40), scored(36, 40))
    found = {(group.corpus, group.category): group for group in groups(measured)}
    assert set(found) == {
        (corpus, category)
        for corpus in ("facts", "messages", "both")
        for category in ("all", "multi-hop", "temporal")
    }
    everything = found["facts", "all"]
    assert everything.questions == 40
    recall = everything.figures["recall_10"]
    assert recall.value == 0.75
    assert 0.55 < recall.low < 0.75 < recall.high < 0.9
    assert found["facts", "temporal"].questions == 20


def test_other_rankings_are_held_against_the_default_on_the_same_questions() -> None:
    measured = run(scored(30, 40), scored(20, 40), scored(36, 40))
    (cosine,) = rankings(measured)
    recall = cosine.differences["recall_10"]
    assert (cosine.corpus, cosine.variant) == ("facts", "cosine alone")
    assert (recall.before, recall.after) == (0.75, 0.5)
    assert recall.low < -0.25 < recall.high < 0
    assert recall.verdict == "worse"
    # Paired: where both answer alike, chance has nothing to move.
    (same,) = rankings(run(scored(30, 40), scored(30, 40), scored(36, 40)))
    assert same.differences["recall_10"].verdict == "same"


def test_bars_depend_on_the_embedder_and_on_cosine_alone() -> None:
    good = list(bars(run(scored(71, 100), scored(60, 100), scored(86, 100))))
    assert [bar.verdict for bar in good] == ["met", "aim met", "aim met", "met", "met"]
    poor = list(bars(run(scored(66, 100), scored(60, 100), scored(78, 100))))
    assert [bar.verdict for bar in poor] == ["missed", "aim met", "missed", "met", "missed"]
    offline = list(bars(run(scored(66, 100), scored(57, 100), scored(79, 100), kind="offline")))
    assert [bar.met for bar in offline] == [True, True, True, True]
    # They were set on LoCoMo; other data have other scores.
    assert not list(bars(run(scored(1, 9), scored(1, 9), scored(1, 9), data="EVAL_DIR")))


def test_the_report_says_what_was_missed_and_what_limits_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured = run(scored(66, 100), scored(60, 100), scored(78, 100))
    measured.degraded = 3
    show(measured, Console(width=140))
    shown = capsys.readouterr().out
    assert "0.660 (" in shown
    assert "-0.060 (" in shown
    assert shown.count("missed") == 3
    assert "R@10 0.900" in shown
    assert "add nothing to facts here: speaker" in shown
    assert "3 answers were degraded" in shown


def test_the_file_holds_the_scores_of_every_question(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(as_json([run(scored(1, 2), scored(0, 2), scored(2, 2))])), "utf-8")
    written = read_result(path, FORMAT)
    (found,) = written["runs"]
    assert found["scores"]["facts"]["balanced"] == [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    assert [question["id"] for question in found["questions"]] == ["q0", "q1"]
    assert found["bars"][0]["verdict"] == "missed"
    path.write_text('{"format": 1}', "utf-8")
    with pytest.raises(ValueError, match="write it anew"):
        read_result(path, FORMAT)
