"""The data set: sessions with what was once learnt from them, and questions with their evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from hitherto.v1 import conversation_pb2
from hitherto_client.inputs import TranscriptInput
from hitherto_client.wire import build

LOCOMO = "LoCoMo"


class DataSet(NamedTuple):
    """A data set's name, the variable that names its folder, and its files there."""

    name: str
    variable: str
    transcripts: str
    questions: str


SOURCES = (
    DataSet(LOCOMO, "LOCOMO_DIR", "locomo_dev_transcripts.jsonl", "locomo_dev.json"),
    DataSet("EVAL_DIR", "EVAL_DIR", "transcripts.jsonl", "questions.json"),
)
"""The public data set, and those of one's own in the same format."""


@dataclass(frozen=True, slots=True)
class BenchmarkQuestion:
    """A question to one user's memory.

    `gold` are the ids of the messages that hold the answer, `answer` is its words if the data have
    them, `asked_at` the time of the question if it is not asked long after all.
    """

    id: str
    user: str
    text: str
    category: str
    gold: frozenset[str]
    answer: str = ""
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """All sessions, as they stand in the file, and the questions to be asked."""

    sessions: Sequence[Mapping[str, Any]]
    questions: Sequence[BenchmarkQuestion]
    name: str = LOCOMO

    @property
    def users(self) -> list[str]:
        """Everybody who has a session."""
        return sorted({session["user_id"] for session in self.sessions})

    @property
    def learnt(self) -> bool:
        """Whether the data say what a language model learnt from them."""
        return any(session["facts"] for session in self.sessions)

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


def load(folder: Path, source: DataSet = SOURCES[0]) -> Data:
    """Read a data set.

    Raises:
        ValueError: A file is missing or damaged; the text names it.
    """
    rows = _text(folder, source, source.transcripts).splitlines()
    sessions = [_parsed(line, source.transcripts) for line in rows]
    for number, session in enumerate(sessions, 1):
        try:
            build(conversation_pb2.Transcript, **transcript(session))
            _ = session["summary"], [(one["content"], one["evidence"]) for one in session["facts"]]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"line {number} of {source.transcripts} cannot be used"
                f" ({type(error).__name__}: {error}): see benchmarks/README.md"
            ) from None
    found = _parsed(_text(folder, source, source.questions), source.questions)
    try:
        questions = [
            BenchmarkQuestion(
                row["id"],
                row["user"],
                row["question"],
                row["category"],
                frozenset(row["gold"]),
                row.get("answer") or "",
                datetime.fromisoformat(at) if (at := row.get("reference_time")) else None,
            )
            for row in found["queries"]
        ]
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{source.questions} is not in LoCoMo's shape: see benchmarks/README.md"
        ) from None
    answerable = [question for question in questions if question.gold]
    if not answerable:
        raise ValueError(
            f"{source.questions} has no question with gold messages: see benchmarks/README.md"
        )
    return Data(sessions, answerable, source.name)


def transcript(session: Mapping[str, Any]) -> TranscriptInput:
    """A session as it is sent: whole and ended; roles in upper or lower case."""
    messages: list[Any] = [
        {
            **message,
            "role": message["role"].lower(),
            "created_at": datetime.fromisoformat(message["created_at"]),
        }
        for message in session["messages"]
    ]
    return {
        "user_id": session["user_id"],
        "conversation_id": session["conversation_id"],
        "messages": messages,
        "ended": True,
    }


def choose(data: Data, limit: int | None) -> Data:
    """The same with at most `limit` questions, spread evenly over all of them."""
    held = data.questions
    if limit is None or limit >= len(held):
        return data
    return replace(data, questions=[held[i * len(held) // limit] for i in range(limit)])


def _text(folder: Path, source: DataSet, name: str) -> str:
    try:
        return (folder / name).read_text("utf-8")
    except OSError as error:
        raise ValueError(
            f"{source.variable} has no readable {name} ({error.strerror}): see benchmarks/README.md"
        ) from None


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is damaged ({error}): see benchmarks/README.md") from None
