"""Runs of the LoCoMo benchmark as they come out, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.locomo.answers import BALANCED, COSINE, QuestionScore
from benchmarks.locomo.data import LOCOMO, BenchmarkQuestion
from benchmarks.locomo.measure import EmbedderRun

NOTHING, EVERYTHING = QuestionScore(0.0, 0.0, 0.0), QuestionScore(1.0, 1.0, 1.0)


def questions(count: int) -> list[BenchmarkQuestion]:
    """Questions of two categories in turn."""
    return [
        BenchmarkQuestion(f"q{i}", "ann", "?", ("temporal", "multi-hop")[i % 2], frozenset({"m"}))
        for i in range(count)
    ]


def scored(found: int, of: int) -> list[QuestionScore]:
    """Scores of which so many are perfect and the others nothing."""
    return [EVERYTHING] * found + [NOTHING] * (of - found)


def run(
    facts: Sequence[QuestionScore],
    cosine: Sequence[QuestionScore],
    messages: Sequence[QuestionScore],
    *,
    kind: str = "onnx",
    embedder: str = "onnx:model",
    data: str = LOCOMO,
) -> EmbedderRun:
    """A run with these scores of the default ranking, and of cosine alone on facts.

    What is found among both is what is found among messages.
    """
    return EmbedderRun(
        data=data,
        kind=kind,
        embedder=embedder,
        held={
            "sessions": 2,
            "succeeded": 2,
            "summaries": 2,
            "messages": 9,
            "memories": 3,
            "with_sources": 3,
        },
        questions=questions(len(facts)),
        ceiling=0.9,
        scores={
            "facts": {BALANCED.name: facts, COSINE.name: cosine},
            "messages": {BALANCED.name: messages},
            "both": {BALANCED.name: messages},
        },
        idle={"facts": ["speaker"], "messages": []},
        seconds={"loading": 1.0, "asking": 2.0},
    )
