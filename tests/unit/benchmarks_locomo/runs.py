"""Runs of the LoCoMo benchmark as they come out, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.locomo.data import LOCOMO, Question
from benchmarks.locomo.loading import Held
from benchmarks.locomo.measure import Run
from benchmarks.locomo.scores import Score
from benchmarks.locomo.variants import BALANCED, COSINE

NOTHING, EVERYTHING = Score(0.0, 0.0, 0.0), Score(1.0, 1.0, 1.0)


def questions(count: int) -> list[Question]:
    """Questions of two categories in turn."""
    return [
        Question(f"q{i}", "ann", "?", ("temporal", "multi-hop")[i % 2], frozenset({"m"}))
        for i in range(count)
    ]


def scored(found: int, of: int) -> list[Score]:
    """Scores of which so many are perfect and the others nothing."""
    return [EVERYTHING] * found + [NOTHING] * (of - found)


def run(
    facts: Sequence[Score],
    cosine: Sequence[Score],
    messages: Sequence[Score],
    *,
    kind: str = "onnx",
    embedder: str = "onnx:model",
    data: str = LOCOMO,
) -> Run:
    """A run with these scores of the default ranking, and of cosine alone on facts.

    What is found among both is what is found among messages.
    """
    return Run(
        data=data,
        kind=kind,
        embedder=embedder,
        held=Held(2, 2, 2, 9, 3, 3),
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
