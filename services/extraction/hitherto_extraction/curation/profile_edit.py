"""Applies a change by hand to a profile, as a pure function; `profiles` writes it.

Unlike learning, a change by hand replaces whole values and removes them. Each changed path is
marked with the time, so that only later statements of the user override it (E2).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from hitherto_extraction.pipeline.profile import MAX_BYTES, said_path
from hitherto_shared.models import Profile

FIELDS = (
    "department",
    "summary",
    "current_projects",
    "preferences",
    "frequent_intents",
    "access_level",
    "facts",
    "metadata",
)
STRUCTS = ("preferences", "facts", "metadata")
LISTS = ("current_projects", "frequent_intents")
RESERVED = ("department", "access_level")
"""Fields that only a credential that manages profiles may change; statements never do."""

CLEARABLE = tuple(name for name in FIELDS if name not in RESERVED)
"""Fields that a person may clear."""

_EMPTY: Mapping[str, Any] = {
    "department": "",
    "summary": "",
    "current_projects": (),
    "preferences": {},
    "frequent_intents": (),
    "access_level": "standard",
    "facts": {},
    "metadata": {},
}

Path = tuple[str, ...]


class ProfileTooLarge(ValueError):
    """The profile would pass 64 KiB."""


@dataclass(frozen=True, slots=True)
class ProfileEdit:
    """The new profile, when its values were said, and the paths that changed."""

    profile: Profile
    said_at: dict[str, str]
    changed: list[str]


def edit_profile(
    current: Profile,
    said_at: Mapping[str, str],
    values: Mapping[str, Any],
    paths: Sequence[Path],
    at: datetime,
) -> ProfileEdit:
    """Set `values` at `paths`.

    Args:
        current: The present profile; version 0 if there is none.
        said_at: When each of its values was said.
        values: The new values by field; a path without a value is removed.
        paths: A field, or a field of free-form JSON and keys within it.
        at: The time of the change.

    Raises:
        ProfileTooLarge: It would exceed the limit.
    """
    held: dict[str, Any] = {name: copy.deepcopy(getattr(current, name)) for name in FIELDS}
    marks = dict(said_at)
    changed: list[str] = []
    for path in paths:
        new = _at(values, path)
        old = _at(held, path)
        if _plain(new) == _plain(old):
            continue
        if len(path) == 1:
            held[path[0]] = _EMPTY[path[0]] if new is None else new
            if _plain(held[path[0]]) == _plain(old):
                continue
        else:
            _put(held, path, new)
        name = said_path(*path)
        changed.append(name)
        # The change by hand also overrides what was said about anything below it.
        marks = {key: value for key, value in marks.items() if not key.startswith(f"{name}.")}
        marks[name] = at.astimezone(UTC).isoformat()
    if len(json.dumps(held, ensure_ascii=False, default=list).encode()) > MAX_BYTES:
        raise ProfileTooLarge
    fields: dict[str, Any] = {name: tuple(v) if name in LISTS else v for name, v in held.items()}
    profile = replace(current, version=current.version + bool(changed), **fields)
    return ProfileEdit(profile, marks, changed)


def _at(values: Mapping[str, Any], path: Path) -> Any:
    found: Any = values
    for key in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found


def _put(held: dict[str, Any], path: Path, new: Any) -> None:
    """Set a key or, with None, remove it; missing objects are created, other values replaced."""
    inner: dict[str, Any] = held
    for key in path[:-1]:
        following = inner.get(key)
        if not isinstance(following, dict):
            if new is None:
                return
            following = inner[key] = {}
        inner = following
    if new is None:
        inner.pop(path[-1], None)
    else:
        inner[path[-1]] = new


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
