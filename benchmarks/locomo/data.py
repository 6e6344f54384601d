"""The data set: sessions with what was once learnt from them, and questions with their evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRANSCRIPTS = "locomo_dev_transcripts.jsonl"
QUESTIONS = "locomo_dev.json"


@dataclass(frozen=True, slots=True)
class Question:
    """A question to one user's memory.

    Attributes:
        id: Its name in the data set.
        user: Whose memory is asked.
        text: In words.
        category: What it takes to answer it.
        gold: Ids of the messages that hold the answer.
    """

    id: str
    user: str
    text: str
    category: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Data:
    """All sessions, as they stand in the file, and the questions to be asked."""

    sessions: Sequence[Mapping[str, Any]]
    questions: Sequence[Question]

    @property
    def users(self) -> list[str]:
        """Everybody who has a session."""
        return sorted({session["user_id"] for session in self.sessions})

    @property
    def ceiling(self) -> float:
        """The recall of somebody who finds every fact: not every gold message led to one."""
        told: dict[str, set[str]] = {}
        for session in self.sessions:
            for fact in session["facts"]:
                told.setdefault(session["user_id"], set()).update(fact["evidence"])
        parts = [
            len(question.gold & told.get(question.user, set())) / len(question.gold)
            for question in self.questions
        ]
        return sum(parts) / len(parts)


def load(folder: Path) -> Data:
    """Read the data set.

    Raises:
        ValueError: A file is missing or damaged; the text names it.
    """
    sessions = [_parsed(line, TRANSCRIPTS) for line in _text(folder, TRANSCRIPTS).splitlines()]
    found = _parsed(_text(folder, QUESTIONS), QUESTIONS)
    try:
        questions = [
            Question(
                row["id"], row["user"], row["question"], row["category"], frozenset(row["gold"])
            )
            for row in found["queries"]
        ]
    except (KeyError, TypeError):
        raise ValueError(f"{QUESTIONS} is not in LoCoMo's shape: fetch it anew") from None
    answerable = [question for question in questions if question.gold]
    if not answerable:
        raise ValueError(f"{QUESTIONS} has no question with gold messages: fetch it anew")
    return Data(sessions, answerable)


def choose(data: Data, limit: int | None) -> Data:
    """The same with at most `limit` questions, spread evenly over all of them."""
    held = data.questions
    if limit is None or limit >= len(held):
        return data
    return Data(data.sessions, [held[i * len(held) // limit] for i in range(limit)])


def _text(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text("utf-8")
    except OSError as error:
        raise ValueError(
            f"LOCOMO_DIR has no readable {name} ({error.strerror}): see benchmarks/README.md"
        ) from None


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is damaged ({error}): fetch it anew") from None
