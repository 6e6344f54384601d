"""Formats profile and preferences as labelled lines, each value once, stated before inferred."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hitherto_retrieval.render.context import LearntPreference
from hitherto_retrieval.render.values import clean, labelled
from hitherto_shared.models import Profile

PREFERENCE = "Preference"
LEARNT = "Preference (learnt)"
FACT = "Fact"

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


@dataclass(frozen=True, slots=True)
class ProfileLine:
    """One line: a fixed label and a cleaned value."""

    label: str
    value: str


def profile_lines(
    profile: Profile | None, learnt: Sequence[LearntPreference] = ()
) -> list[ProfileLine]:
    """The lines about the user as a whole, the most useful first; empty values are left out."""
    if profile is None:
        return _all_lines(Profile(user_id=""), learnt)
    if profile.kept is None:
        return _all_lines(profile, learnt)
    known: tuple[Sequence[LearntPreference], list[ProfileLine]] | None = profile.kept.get(_LINES)
    if known is None or known[0] != learnt:
        known = profile.kept[_LINES] = learnt, _all_lines(profile, learnt)
    return known[1]


def _all_lines(profile: Profile, learnt: Sequence[LearntPreference]) -> list[ProfileLine]:
    parts: dict[str, Mapping[str, Any]] = {
        key: part for key in _PARTS if isinstance(part := profile.facts.get(key), Mapping)
    }
    personal, tastes, technical = (parts.get(key, {}) for key in _PARTS)
    stated = _stated(profile.preferences, tastes)
    languages = stated.pop("languages", None)
    topics = stated.pop("topics", None)
    topic_list = _united(
        _items(topics[1] if topics else None),
        [one.key for one in learnt if one.type == "topics" and one.value not in (None, False)],
    )
    projects = _united(profile.current_projects, _items(technical.get("current_projects")))

    lines = [
        _line("Summary", profile.summary),
        *(_line(label, personal.get(key)) for key, label in _PERSONAL),
        _line("Languages", languages[1] if languages else None),
        _line("Programming Languages", technical.get(_PROGRAMMING)),
        _line("Interested Topics", topic_list),
        _line("Current Projects", projects),
        _line("Frameworks", technical.get("frameworks")),
        *(_keyed(PREFERENCE, path, value) for path, value in stated.values()),
        *(_keyed(LEARNT, *one) for one in _unstated(learnt, stated)),
        _line("Challenges", technical.get("challenges")),
        *(_line(label, personal.get(key)) for key, label in _PERSONAL_LATER),
        _line("Department", profile.department),
        _line("Frequent Intents", list(profile.frequent_intents)),
    ]
    shown = {key for key, _ in (*_PERSONAL, *_PERSONAL_LATER, *_TECHNICAL)}
    shown |= {"current_projects", _PROGRAMMING}
    for part in (personal, technical):
        rest = {key: value for key, value in part.items() if key not in shown}
        lines.extend(_keyed(FACT, *leaf) for leaf in _leaves(rest))
    others = {key: value for key, value in profile.facts.items() if key not in parts}
    lines.extend(_keyed(FACT, *leaf) for leaf in _leaves(others))
    return [line for line in lines if line is not None]


def _stated(*sources: Mapping[str, Any]) -> dict[str, tuple[_Path, Any]]:
    """Stated preferences by normalised name; of two equal ones the first, lists are joined."""
    found: dict[str, tuple[_Path, Any]] = {}
    for path, value in (leaf for source in sources for leaf in _leaves(source)):
        name = _name(*path)
        if name not in found:
            found[name] = (path, value)
        elif isinstance(value, list | tuple) and isinstance(found[name][1], list | tuple):
            found[name] = (found[name][0], _united(found[name][1], value))
    return found


def _unstated(
    learnt: Sequence[LearntPreference], stated: Mapping[str, object]
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


def _line(label: str, value: Any) -> ProfileLine | None:
    text = _inline(value)
    return ProfileLine(label, text) if text else None


def _keyed(label: str, path: _Path, value: Any) -> ProfileLine | None:
    text = _inline(value)
    key = " ".join(path).replace("_", " ")
    return ProfileLine(label, labelled(key, text)) if text else None


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
