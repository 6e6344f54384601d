"""The people: their sessions, and what must be known of them afterwards."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "people"
QUESTION_KINDS = ("now", "then", "why", "deleted", "dependent", "never")
HOW_ENDED = ("contradicted", "updated", "achieved", "forgotten", "profile")


@dataclass(frozen=True, slots=True)
class Said:
    """One message."""

    role: str
    name: str
    at: datetime
    content: str


@dataclass(frozen=True, slots=True)
class DatedTalk:
    """One conversation."""

    id: str
    messages: Sequence[Said]


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a text must hold to say something, whatever its wording.

    It says it if of every group in `all` one string occurs in it, and none of `none`. A space at
    the border of a string stands for the border of a word.
    """

    id: str
    what: str
    all: Sequence[Sequence[str]]
    none: Sequence[str]
    more: Mapping[str, Any]

    def matches(self, text: str) -> bool:
        """Whether a text says it."""
        folded, words = folding(text), f" {_words(text)} "

        def stands(each: str) -> bool:
            bare = each.strip()
            return (
                folding(bare) in folded
                if each == bare
                else each.replace(bare, _words(bare)) in words
            )

        return all(any(map(stands, group)) for group in self.all) and not any(
            map(stands, self.none)
        )


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """What the person asks in the end; `answer`, `stale` and `hidden` are ids of patterns."""

    id: str
    kind: str
    ask: str
    answer: Sequence[str]
    stale: Sequence[str]
    hidden: Sequence[str]
    as_of: str


@dataclass(frozen=True, slots=True)
class Persona:
    """A person with sessions and gold."""

    id: str
    language: str
    time_zone: str
    sessions: Sequence[DatedTalk]
    current: Sequence[Pattern]
    ended: Sequence[Pattern]
    doubtful: Sequence[Pattern]
    never: Sequence[Pattern]
    profile: Sequence[Pattern]
    questions: Sequence[AskedQuestion]

    def pattern(self, name: str) -> Pattern:
        """The pattern with an id."""
        every = (*self.current, *self.ended, *self.doubtful, *self.never)
        return next(each for each in every if each.id == name)


def folding(text: str) -> str:
    """A text without case and forms of characters, its spaces alike."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _words(text: str) -> str:
    """A folded text without punctuation."""
    letters = (" " if unicodedata.category(ch)[0] in "PSZ" else ch for ch in folding(text))
    return " ".join("".join(letters).split())


def load(folder: Path = FOLDER) -> list[Persona]:
    """Everybody, in the order of their names.

    Raises:
        ValueError: A file is not of the form described in README.md; the message names it.
    """
    return [_checked(path) for path in sorted(folder.glob("*.json"))]


def _checked(path: Path) -> Persona:
    try:
        person = _person(path.stem, json.loads(path.read_text("utf-8")))
        for question in person.questions:
            if question.kind not in QUESTION_KINDS:
                raise ValueError(f"unknown kind of question {question.kind}")
            for name in (*question.answer, *question.stale, *question.hidden):
                person.pattern(name)
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise ValueError(f"{path.name}: {error!r}") from error
    return person


def _person(name: str, given: Mapping[str, Any]) -> Persona:
    gold = given["gold"]
    return Persona(
        id=name,
        language=given["language"].partition("-")[0],
        time_zone=given["time_zone"],
        sessions=[_session(each) for each in given["sessions"]],
        **{
            kind: list(_patterns(gold[kind]))
            for kind in ("current", "ended", "doubtful", "never", "profile")
        },
        questions=[
            AskedQuestion(
                id=each["id"],
                kind=each["kind"],
                ask=each["ask"],
                answer=each.get("answer", ()),
                stale=each.get("stale", ()),
                hidden=each.get("hidden", ()),
                as_of=each.get("as_of", ""),
            )
            for each in gold["questions"]
        ],
    )


def _session(given: Mapping[str, Any]) -> DatedTalk:
    return DatedTalk(
        given["id"],
        [
            Said(
                each["role"],
                each.get("name", ""),
                datetime.fromisoformat(each["at"]),
                each["content"],
            )
            for each in given["messages"]
        ],
    )


def _patterns(given: Sequence[Mapping[str, Any]]) -> Iterator[Pattern]:
    for each in given:
        yield Pattern(
            each.get("id") or each["path"],
            each.get("what", ""),
            each["all"],
            each.get("none", ()),
            each,
        )
