"""What a person's end state and blocks are worth, by the gold; doubts by a blind reader as well.

A row holds counts (hit, of) by the name of a score, so that rows can be added up by language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.state.people import Pattern, Persona
from benchmarks.state.replies import RecordedReply
from benchmarks.state.run import Seen, Told
from hitherto_client.results import Memory

CHANGES = (
    "updated_memories",
    "contradicted_memories",
    "achieved_goals",
    "forgotten_memories",
    "profile_changes",
)
"""The lists of a reply that change something known."""
CURRENT = ("active", "achieved")
ASKED = ("now", "then", "why", "dependent")
_FIRST = 300
"""Tokens of a block within which the best answer should stand."""
_ENDED_LINE = re.compile(r"until \d{4}|\d{4}-\d\d-\d\d (?:to|–) \d{4}|\(until ")
_THEN = re.compile(r", then: .*(?=\)$)")
"""What a line notes beside a memory that has ended: it is no part of what the memory says."""
_LETTERS_PER_TOKEN = 3.0


_STORED_AT = {"facts.technical_context.current_projects": "current_projects"}
"""Where the service keeps what the gold looks for elsewhere."""


@dataclass(slots=True)
class Score:
    """Counts by name: how often something was so, of how many times it was asked."""

    hits: Counter[str] = field(default_factory=Counter)
    of: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)

    def note(self, name: str, hit: bool, what: str = "") -> None:
        """Count one."""
        self.of[name] += 1
        self.hits[name] += hit
        if not hit and what:
            self.missed.append(f"{name}: {what}")

    def add(self, other: Score) -> None:
        """Add the counts of another."""
        self.hits.update(other.hits)
        self.of.update(other.of)
        self.missed += other.missed

    def share(self, name: str) -> float | None:
        """The share; None if nothing was asked."""
        return self.hits[name] / self.of[name] if self.of[name] else None


def score(
    seen: Seen, records: Mapping[str, RecordedReply], read: Mapping[tuple[str, str], bool]
) -> Score:
    """What is known and told of a person, held against the gold.

    `read`: whether a person's statement may hold no longer, of those that somebody has judged.
    """
    found = Score()
    _changes(found, seen, records)
    _state(found, seen, read)
    for told in seen.told:
        _question(found, seen.person, told)
    return found


def _changes(found: Score, seen: Seen, records: Mapping[str, RecordedReply]) -> None:
    """The changes that the recorded replies propose, and those of them that were refused."""
    for session, job in zip(seen.person.sessions, seen.jobs, strict=True):
        record = records.get(session.id)
        found.note("jobs succeeded", job.state == "succeeded", f"{session.id} {job.error}")
        refused = {each.item: each.reason for each in job.result.refusals}
        for name in CHANGES:
            offered = record.reply.get(name, ()) if record is not None else ()
            for number in range(len(offered)):
                why = refused.get(f"{name}[{number}]")
                told = f"{session.id} {name}[{number}] {why}: {offered[number]}"
                found.note("changes applied", why is None, told)


def _state(found: Score, seen: Seen, read: Mapping[tuple[str, str], bool]) -> None:
    person = seen.person
    active = [each for each in seen.memories if each.status in CURRENT]
    values = list(_texts(seen.profile))
    for item in person.current:
        known = any(item.matches(_words(each)) for each in active)
        known = known or any(map(item.matches, values)) or item.matches(" ".join(values))
        found.note("current known", known, item.what)
    for each in active:
        wrong = [item.what for item in person.ended if _states(each, item)]
        wrong += [item.what for item in person.never if item.matches(_words(each))]
        wrong = [] if _tells_an_end(each, person) else wrong
        found.note("current right", not wrong, f"{each.content} <- {wrong}")
    for item in person.ended:
        still = [_words(each) for each in active if _states(each, item)]
        found.note("ended gone", not still, f"{item.what} <- {still[:1]}")
    for item in person.never:
        stored = [_words(each) for each in active if item.matches(_words(each))]
        found.note("never learnt", not stored, f"{item.what} <- {stored[:1]}")
    for item in person.profile:
        value = _at(seen.profile, _STORED_AT.get(item.more["path"], item.more["path"]))
        text = " ".join(_texts(value))
        found.note("profile right", item.matches(text), f"{item.more['path']} = {text!r}")
    _doubts(found, seen, active, read)


def _doubts(
    found: Score,
    seen: Seen,
    active: Sequence[Memory],
    read: Mapping[tuple[str, str], bool],
) -> None:
    person = seen.person
    doubted = [each for each in active if getattr(each, "doubt", None)]
    fair = (*person.doubtful, *person.ended)
    for each in doubted:
        right = any(item.matches(_words(each)) for item in fair)
        found.note("doubt in gold", right)
        found.note("doubt right", read.get((person.id, each.content), right), _words(each))
    for item in person.doubtful:
        standing = [each for each in active if item.matches(_words(each))]
        if standing:
            hit = any(getattr(each, "doubt", None) for each in standing)
            found.note("doubt found", hit, item.what)


def _question(found: Score, person: Persona, told: Told) -> None:
    question = told.question
    answers = [person.pattern(name) for name in question.answer]
    stale = [person.pattern(name) for name in question.stale]
    hidden = [person.pattern(name) for name in question.hidden]
    lines = told.block.splitlines()
    if hidden:
        shown = [line for line in lines if any(item.matches(line) for item in hidden)]
        found.note("forgotten hidden", not shown, f"{question.ask} <- {shown[:1]}")
    if question.kind == "never":
        found.note("absence said", told.nothing, question.ask)
    if question.kind not in ASKED or not answers:
        return
    found.note("not denied", not told.nothing, question.ask)
    at = _first([_THEN.sub("", line) for line in lines], answers)
    found.note("answered", at is not None, question.ask)
    letters = sum(len(line) + 1 for line in lines[: (at or 0) + 1])
    early = at is not None and letters <= _FIRST * _LETTERS_PER_TOKEN
    found.note("best first", early, question.ask)
    if stale:
        standing = [line for line in lines if not _ENDED_LINE.search(line)]
        old, new = _first(standing, stale), _first(standing, answers)
        above = old is not None and (new is None or old < new)
        line = standing[old] if old is not None else ""
        found.note("stale not above", not above, f"{question.ask} <- {line}")


def _first(lines: Sequence[str], patterns: Iterable[Pattern]) -> int | None:
    wanted = list(patterns)
    return next(
        (at for at, line in enumerate(lines) if any(item.matches(line) for item in wanted)), None
    )


def _states(memory: Memory, ended: Pattern) -> bool:
    """Whether a memory states what ended; a goal that is marked as achieved says that it ended."""
    return memory.status == "active" and ended.matches(_words(memory))


def _tells_an_end(memory: Memory, person: Persona) -> bool:
    """Whether a memory that names what ended also names what holds now: it tells of the change."""
    words = _words(memory)
    by = [item.more.get("by") for item in person.ended if item.matches(words)]
    return any(person.pattern(name).matches(words) for name in by if name)


def _words(memory: Memory) -> str:
    return f"{memory.content} {memory.detail}".strip()


def _at(profile: Mapping[str, Any], path: str) -> Any:
    value: Any = profile
    for key in path.split("."):
        value = value.get(key, "") if isinstance(value, Mapping) else ""
    return value


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            for text in _texts(inner):
                yield f"{key}: {text}" if not isinstance(inner, Mapping) else text
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    elif value not in (None, ""):
        yield str(value)
