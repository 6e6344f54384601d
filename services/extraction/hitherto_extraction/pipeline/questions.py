"""Selects which of a model's questions about a memory are kept.

Questions are indexed by their words and never shown, and a model is asked for words that differ
from the memory's. So only their form is checked: a question of one line that gives no orders and
holds no number that the memory lacks.
"""

from __future__ import annotations

from collections.abc import Iterable

from hitherto_extraction.pipeline.digits import strange
from hitherto_shared.text.instructions import reads_as_instruction

MAX_QUESTIONS = 3
MAX_CHARACTERS = 120


def kept(questions: Iterable[str], *texts: str) -> tuple[str, ...]:
    """The first `MAX_QUESTIONS` distinct questions about a memory with these texts."""
    different = {question.casefold(): question for question in questions if _may_be(question)}
    found = (each for each in different.values() if not strange(each, texts, ()))
    return tuple(question for question, _ in zip(found, range(MAX_QUESTIONS), strict=False))


def _may_be(question: str) -> bool:
    return 0 < len(question) <= MAX_CHARACTERS and not reads_as_instruction(question)
