"""Formats profile and preferences as labelled lines, each value once, stated before inferred.

A line knows when its value was said, if that is known; of several values, when the last was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from hitherto_retrieval.render.values import clean, labelled
from hitherto_retrieval.repetition import words_of
from hitherto_shared.models import Preference, Profile
from hitherto_shared.text.word_forms import forms

PREFERENCE = "Preference"
LEARNT = "Preference (learnt)"
FACT = "Fact"
_TOPICS = "Interested Topics"
ESSENTIAL = frozenset({"Summary", "Name", "Current Projects", PREFERENCE})
"""Labels of what shapes any answer: who it is for, what for, and in which way (document 000)."""

_MAX_DEPTH = 16
_LINES = "lines"
_PARTS = ("personal", "preferences", "technical_context")
_PERSONAL = (
    ("name", "Name"),
    ("role", "Role"),
    ("org", "Org"),
    ("company", "Company"),
    ("location", "Location"),
    ("occupation", "Occupation"),
    ("timezone", "Timezone"),
)
_PERSONAL_LATER = (("contacts", "Contacts"), ("notes", "Notes"))
_TECHNICAL = (("frameworks", "Frameworks"), ("challenges", "Challenges"))
_PROGRAMMING = "programming_languages"
_NOT_WORD = re.compile(r"[\W_]+")

_Path = tuple[str, ...]

_STATED: _Path = ("preferences",)
_TASTES: _Path = ("facts", "preferences")
_PERSONAL_PATH: _Path = ("facts", "personal")
_TECHNICAL_PATH: _Path = ("facts", "technical_context")


@dataclass(frozen=True)
class ProfileLine:
    """One line: a fixed label, a cleaned value, and what is known of where it comes from.

    Attributes:
        said_at: When it was last said.
        memory_ids: The memories that it rests on.
        inferred: Whether it rests on behaviour alone.
        rank: Where there is no room for all, lines with a lower one are kept.
    """

    label: str
    value: str
    said_at: datetime | None = None
    memory_ids: frozenset[str] = frozenset()
    inferred: bool = False
    rank: int = 0

    @cached_property
    def terms(self) -> frozenset[str]:
        """Its words as a question's are compared, without those that name its kind."""
        label = "" if self.label in (PREFERENCE, LEARNT, FACT) else self.label
        return frozenset(forms(word)[0] for word in words_of(f"{label} {self.value}"))


def profile_lines(profile: Profile | None, learnt: Sequence[Preference] = ()) -> list[ProfileLine]:
    """The lines about the user as a whole, the most useful first; empty values are left out."""
    if profile is None:
        return _all_lines(Profile(user_id=""), learnt)
    if profile.memo is None:
        return _all_lines(profile, learnt)
    known: tuple[Sequence[Preference], list[ProfileLine]] | None = profile.memo.get(_LINES)
    if known is None or known[0] != learnt:
        known = profile.memo[_LINES] = learnt, _all_lines(profile, learnt)
    return known[1]


def _all_lines(profile: Profile, learnt: Sequence[Preference]) -> list[ProfileLine]:
    parts: dict[str, Mapping[str, Any]] = {
        key: part for key in _PARTS if isinstance(part := profile.facts.get(key), Mapping)
    }
    personal, tastes, technical = (parts.get(key, {}) for key in _PARTS)
    stated = _stated({_STATED: profile.preferences, _TASTES: tastes})
    languages = stated.pop("languages", _NOTHING)
    topics = stated.pop("topics", _NOTHING)
    topic_list = _united(
        _items(topics.value),
        [one.key for one in learnt if one.type == "topics" and one.value not in (None, False)],
    )
    projects = _united(profile.current_projects, _items(technical.get("current_projects")))
    origin = _Origins(profile.sources)

    def line(label: str, value: Any, *paths: _Path) -> ProfileLine | None:
        text = _inline(value)
        return origin.line(label, text, paths) if text else None

    def keyed(label: str, key: _Path, value: Any, *paths: _Path) -> ProfileLine | None:
        text = _inline(value)
        name = " ".join(key).replace("_", " ")
        return origin.line(label, labelled(name, text), paths) if text else None

    def facts(of: _Path, values: Mapping[str, Any]) -> Iterator[ProfileLine | None]:
        for key, value in _leaves(values):
            yield keyed(FACT, key, value, (*of, *key))

    lines = [
        line("Summary", profile.summary, ("summary",)),
        *(line(label, personal.get(key), (*_PERSONAL_PATH, key)) for key, label in _PERSONAL),
        line("Languages", languages.value, *languages.paths),
        line(
            "Programming Languages",
            technical.get(_PROGRAMMING),
            (*_TECHNICAL_PATH, _PROGRAMMING),
        ),
        line(_TOPICS, topic_list, *topics.paths),
        line("Current Projects", projects, ("current_projects",)),
        line("Frameworks", technical.get("frameworks"), (*_TECHNICAL_PATH, "frameworks")),
        *(keyed(PREFERENCE, one.key, one.value, *one.paths) for one in stated.values()),
        line("Challenges", technical.get("challenges"), (*_TECHNICAL_PATH, "challenges")),
        *(line(label, personal.get(key), (*_PERSONAL_PATH, key)) for key, label in _PERSONAL_LATER),
        line("Department", profile.department),
        line("Frequent Intents", list(profile.frequent_intents), ("frequent_intents",)),
    ]
    shown = {key for key, _ in (*_PERSONAL, *_PERSONAL_LATER, *_TECHNICAL)}
    shown |= {"current_projects", _PROGRAMMING}
    for path, part in ((_PERSONAL_PATH, personal), (_TECHNICAL_PATH, technical)):
        lines += facts(path, {key: value for key, value in part.items() if key not in shown})
    lines += facts(("facts",), {k: value for k, value in profile.facts.items() if k not in parts})
    lines += [keyed(LEARNT, *one) for one in _unstated(learnt, stated)]
    inferred = {LEARNT} if _items(topics.value) else {LEARNT, _TOPICS}
    return [
        replace(line, inferred=True) if line.label in inferred else line
        for line in lines
        if line is not None
    ]


class _Origins:
    """When the values of a profile were said, and which memories they rest on."""

    def __init__(self, sources: Mapping[str, Mapping[str, Any]]) -> None:
        self._said_at: dict[_Path, datetime] = {}
        self._memory_ids: dict[_Path, set[str]] = {}
        for source in sources.values():
            # Items of a list have the path of the list.
            path, at = tuple(source["path"]), datetime.fromisoformat(source["said_at"])
            self._said_at[path] = max(at, self._said_at.get(path, at))
            self._memory_ids.setdefault(path, set()).update(source.get("memory_ids", ()))

    def line(self, label: str, value: str, paths: Sequence[_Path]) -> ProfileLine:
        """The line of what has some values; they were said when the last of them was."""
        said_at = max((at for path in paths if (at := self._said_at.get(path))), default=None)
        rests_on = (self._memory_ids.get(path, ()) for path in paths)
        return ProfileLine(label, value, said_at, frozenset().union(*rests_on))


@dataclass(frozen=True, slots=True)
class _StatedValue:
    """A stated preference: its key, its value, and the paths where the profile has it."""

    key: _Path
    value: Any
    paths: Sequence[_Path] = ()


_NOTHING = _StatedValue((), None)


def _stated(sources: Mapping[_Path, Mapping[str, Any]]) -> dict[str, _StatedValue]:
    """Stated preferences by normalised name; of two equal ones the first, lists are joined."""
    found: dict[str, _StatedValue] = {}
    for place, source in sources.items():
        for key, value in _leaves(source):
            name, path = _name(*key), (*place, *key)
            known = found.get(name)
            if known is None:
                found[name] = _StatedValue(key, value, [path])
            elif isinstance(value, list | tuple) and isinstance(known.value, list | tuple):
                united = _united(known.value, value)
                found[name] = _StatedValue(known.key, united, [*known.paths, path])
    return found


def _unstated(
    learnt: Sequence[Preference], stated: Mapping[str, object]
) -> Iterator[tuple[_Path, Any]]:
    seen: set[str] = set()
    for one in learnt:
        name = _name(one.type, one.key)
        if one.type == "topics" or name in seen or name in stated or _name(one.key) in stated:
            continue
        seen.add(name)
        yield (one.type, one.key), one.value


def _leaves(
    mapping: Mapping[str, Any], path: _Path = (), depth: int = 0
) -> Iterator[tuple[_Path, Any]]:
    for key, value in mapping.items():
        if isinstance(value, Mapping) and depth < _MAX_DEPTH:
            yield from _leaves(value, (*path, key), depth + 1)
        else:
            yield (*path, key), value


def _name(*path: str) -> str:
    return _NOT_WORD.sub("_", " ".join(path).casefold()).strip("_")


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _united(*lists: Iterable[Any]) -> list[Any]:
    """The items of all lists, each once, in order, compared without case."""
    found: dict[str, Any] = {}
    for item in (item for items in lists for item in items):
        found.setdefault(_inline(item).casefold(), item)
    return list(found.values())


def _inline(value: Any, depth: int = 0) -> str:
    """Any JSON value as one harmless line."""
    if value is None or depth > _MAX_DEPTH:
        return ""
    if isinstance(value, Mapping):
        pairs = ((str(key), _inline(one, depth + 1)) for key, one in value.items())
        return "; ".join(labelled(key, text) for key, text in pairs if text)
    if isinstance(value, list | tuple):
        return ", ".join(text for one in value if (text := _inline(one, depth + 1)))
    if isinstance(value, bool):
        return "true" if value else "false"
    # JSON numbers are floats here; no one has "2.0 children".
    whole = isinstance(value, float) and value.is_integer()
    return clean(str(int(value) if whole else value))
