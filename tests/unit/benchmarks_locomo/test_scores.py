"""Recall and nDCG of one answer, and the bars of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from benchmarks.locomo.answers import BALANCED, COSINE, QuestionScore, behind, score
from benchmarks.locomo.data import LOCOMO, BenchmarkQuestion
from benchmarks.locomo.measure import EmbedderRun
from benchmarks.locomo.report import locomo_part
from hitherto.v1 import conversation_pb2, memory_pb2, search_pb2
from hitherto_client.results import SearchResult
from hitherto_client.wire import read


def test_recall_counts_gold_messages_behind_the_first_results() -> None:
    results = [["a"], ["x"], ["x"], ["x"], ["x"], ["b", "c"], ["a"], ["x"], ["x"], ["x"], ["d"]]
    found = score({"a", "b", "c", "d"}, results)
    assert (found.recall_5, found.recall_10) == (0.25, 0.75)


def test_ndcg_rewards_what_stands_in_front() -> None:
    assert score({"a"}, [["a"]]).ndcg_10 == 1.0
    assert score({"a"}, [["x"], ["a"]]).ndcg_10 == pytest.approx(1 / math.log2(3))
    ideal = 1 + 1 / math.log2(3)
    assert score({"a", "b"}, [["x"], ["x"], ["b"]]).ndcg_10 == pytest.approx(0.5 / ideal)


def test_scores_stay_between_0_and_1() -> None:
    """Also where several facts came from one message, and where the gold comes too late."""
    assert score({"a"}, [["a"], ["a"], ["a"]]).ndcg_10 == 1.0
    assert score({"a"}, []) == (0.0, 0.0, 0.0)
    assert score({"a"}, [["x"]] * 10 + [["a"]]) == (0.0, 0.0, 0.0)


def test_a_message_stands_for_itself_and_a_memory_for_what_it_came_from() -> None:
    message = search_pb2.SearchResult(message=conversation_pb2.Message(id="m1"))
    memory = search_pb2.SearchResult(memory=memory_pb2.Memory(source_message_ids=["m1", "m2"]))
    assert list(behind(read(SearchResult, message))) == ["m1"]
    assert list(behind(read(SearchResult, memory))) == ["m1", "m2"]


# Means, intervals and bars of a run, and how they are printed and kept.


NOTHING, EVERYTHING = QuestionScore(0.0, 0.0, 0.0), QuestionScore(1.0, 1.0, 1.0)


def scored(found: int, of: int) -> list[QuestionScore]:
    """Scores of which so many are perfect and the others nothing."""
    return [EVERYTHING] * found + [NOTHING] * (of - found)


def run(
    facts: Sequence[QuestionScore],
    cosine: Sequence[QuestionScore],
    messages: Sequence[QuestionScore],
    *,
    kind: str = "onnx",
    data: str = LOCOMO,
) -> EmbedderRun:
    """A run with these scores of the default ranking, and of cosine alone on facts.

    What is found among both is what is found among messages.
    """
    held = ("sessions", "succeeded", "summaries", "messages", "memories", "with_sources")
    questions = [
        BenchmarkQuestion(f"q{n}", "ann", "?", ("temporal", "multi-hop")[n % 2], frozenset("m"))
        for n in range(len(facts))
    ]
    scores = {
        "facts": {BALANCED.name: facts, COSINE.name: cosine},
        "messages": {BALANCED.name: messages},
        "both": {BALANCED.name: messages},
    }
    return EmbedderRun(
        data=data, kind=kind, embedder=f"{kind}:model", held=dict.fromkeys(held, 2),
        questions=questions, ceiling=0.9, scores=scores, seconds={"loading": 1.0, "asking": 2.0},
    )  # fmt: skip


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
