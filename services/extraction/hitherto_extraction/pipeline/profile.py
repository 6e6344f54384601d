"""Merges what was learnt about the user into the profile, value by value.

- Lists are joined, old order first, equal items once. A single value joins a list, and a list said
  later replaces a single value. Otherwise the existing type stays, and the value is dropped and
  counted, as is what cannot be stored or does not fit.
- A map beside the profile records when each single value was said, by its path, and when one ended
  (`ended_path`), so that what was said before, and arrives later, changes nothing. An entry for a
  containing path applies to everything below it.
- No statement can set `department` and `access_level`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from hitherto_extraction.pipeline.free_json import ABSENT, Path, is_double, put_at, says
from hitherto_shared.models import Profile
from hitherto_shared.text.normalise import fold, nfc, unusable_characters

MAX_LIST_ITEMS = 100
MAX_ITEM_CHARACTERS = 500
MAX_KEY_CHARACTERS = 200
MAX_BYTES = 64 * 1024
"""Maximum size of the six merged fields together, as JSON in UTF-8, in bytes."""
MAX_DEPTH = 16
"""Maximum nesting of objects and lists, the field itself being the first level."""

LISTS = ("current_projects", "frequent_intents")
STRUCTS = ("preferences", "facts", "metadata")
"""The fields of free JSON: their values have keys."""
FIELDS = ("summary", "current_projects", "preferences", "frequent_intents", "facts", "metadata")
"""The fields of a profile that a statement may change."""
_ALIAS = ("facts", "technical_context", "current_projects")
"""Another name of `current_projects`."""
# JSON syntax around a value: quotes are counted with the value, ": " and ", " here.
_AROUND = 4


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """The profile after a merge or a change by hand.

    `changed` holds the paths of the values that differ. `said_at` may differ without them, when a
    value was only repeated. `dropped` counts refused items, and `beyond` those of them for which
    there was no room; a value older than the known one is not refused, only late.
    """

    profile: Profile
    said_at: dict[str, str]
    changed: list[str]
    dropped: int = 0
    beyond: int = 0


def said_path(*keys: str) -> str:
    r"""The path of a value in `said_at`: keys joined by dots, with `\.` and `\\` inside a key."""
    return ".".join(key.replace("\\", "\\\\").replace(".", "\\.") for key in keys)


def without_alias(path: Path) -> Path:
    """A path by the name under which the profile holds its value."""
    return (_ALIAS[-1], *path[len(_ALIAS) :]) if path[: len(_ALIAS)] == _ALIAS else path


def ended_path(path: Path, value: Any) -> str:
    """The path in `said_at` of the moment at which one value, or an item of a list, has ended.

    It holds a digest in place of the value, so that no words outlive it. No key of the installation
    goes into it, because it has to mean the same after an import into another one.
    """
    same = fold(value) if isinstance(value, str) else _identity(value)
    return f"{said_path(*path)}#{hashlib.sha256(same.encode()).hexdigest()[:32]}"


def merge_value(
    current: Profile, said_at: Mapping[str, str], path: Path, value: Any, event_time: datetime
) -> ProfileChange:
    """Merge a value, or several as a list, that was said at `event_time`.

    Neither `current` nor `said_at` is modified. `said_at` tells by `said_path` when each single
    value was said. `path` begins with one of `FIELDS`; see `without_alias`.
    """
    merge = _Merge(current, said_at, path, event_time.astimezone(UTC))
    merge.take(value)
    profile = with_values(current, merge.held)
    return ProfileChange(profile, merge.said_at, merge.changed, merge.dropped, merge.beyond)


def with_values(current: Profile, held: Mapping[str, Any]) -> Profile:
    """The profile with other values in some of its fields."""
    values: dict[str, Any] = {
        name: tuple(value) if name in LISTS else value for name, value in held.items()
    }
    return replace(current, **values)


class _Merge:
    """One running merge: the values, their size, what changed, what was dropped."""

    def __init__(
        self, current: Profile, said_at: Mapping[str, str], path: Path, now: datetime
    ) -> None:
        self.held: dict[str, Any] = {name: copied(getattr(current, name)) for name in FIELDS}
        self.said_at = dict(said_at)
        self.changed: list[str] = []
        self.dropped = self.beyond = 0
        self._path, self._now = (path[0], *map(_key, path[1:])), now
        self._size = _size(self.held)

    def take(self, value: Any) -> None:
        """Merge a value at the path."""
        if not says(value):
            return
        field, held = self._path[0], self._there()
        if (
            not all(self._path)
            or len(self._path) > MAX_DEPTH
            or (len(self._path) > 1) is not (field in STRUCTS)
            or (field == "summary" and not isinstance(value, str))
            or held is None
            or isinstance(held, dict)
            or isinstance(value, Mapping)
        ):
            self.dropped += 1
        elif isinstance(value, list):
            self._append(held, value)
        elif isinstance(held, list) or field in LISTS:
            self._append(held, [value])
        else:
            self._replace(held, value)

    def _there(self) -> Any:
        """What is at the path, `ABSENT` if that is blank; None if the path leads into a value."""
        held: Any = self.held
        for key in self._path:
            if not isinstance(held, dict):
                return None
            held = held.get(key)
            if not says(held):
                return ABSENT
        return held

    def _append(self, held: Any, items: list[Any]) -> None:
        """Add to a list, or put one in place of a single value once it has an item."""
        if is_later_known(self.said_at, self._path, self._now):
            return
        found: list[Any] = held if isinstance(held, list) else []
        known = {_identity(item) for item in found}
        before = len(found)
        for raw in items:
            if not says(raw):
                continue
            item = _cleaned(raw, len(self._path) + 1)
            if len(self._path) == 1 and not isinstance(item, str):
                item = ABSENT  # the lists beside the free JSON hold text only
            if item is ABSENT or _length(item) > MAX_ITEM_CHARACTERS:
                self.dropped += 1
            elif _identity(item) not in known and not self._has_ended(item):
                added = _size(item) + _AROUND
                if not found:
                    added += self._in_place_of(held)
                if len(found) >= MAX_LIST_ITEMS or self._size + added > MAX_BYTES:
                    self._leave_out()
                    continue
                if not found:
                    put_at(self.held, self._path, found)
                found.append(item)
                known.add(_identity(item))
                self._size += added
        if len(found) > before:
            self.changed = [said_path(*self._path)]

    def _leave_out(self) -> None:
        """Count a value for which there is no room."""
        self.dropped += 1
        self.beyond += 1

    def _replace(self, held: Any, value: Any) -> None:
        new = _cleaned(value, len(self._path))
        if new is ABSENT:
            self.dropped += 1
            return
        if is_later_known(self.said_at, self._path, self._now) or self._has_ended(new):
            return
        name = said_path(*self._path)
        if held is ABSENT or _identity(held) != _identity(new):
            growth = _size(new) + self._in_place_of(held)
            if growth > 0 and self._size + growth > MAX_BYTES:
                self._leave_out()
                return
            put_at(self.held, self._path, new)
            self.changed = [name]
        self.said_at[name] = self._now.isoformat()

    def _has_ended(self, value: Any) -> bool:
        """Whether a value ended later than what is merged was said; if not, it holds again."""
        name = ended_path(self._path, value)
        ended = _moment(self.said_at.get(name))
        if ended is not None and ended > self._now:
            return True
        self.said_at.pop(name, None)
        return False

    def _in_place_of(self, held: Any) -> int:
        """The bytes of a new value beside its own: for keys and braces, never too few."""
        return sum(_size(key) + _AROUND for key in self._path) if held is ABSENT else -_size(held)


def is_later_known(said_at: Mapping[str, str], path: Path, at: datetime) -> bool:
    """Whether a later statement exists about a value or about an object that contains it."""
    for length in range(1, len(path) + 1):
        said = _moment(said_at.get(said_path(*path[:length])))
        if said is not None and said > at:
            return True
    return False


def _moment(text: str | None) -> datetime | None:
    """The time of a `said_at` entry; None for an unreadable one, which has no effect."""
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found and found.tzinfo is None else found


def _key(raw: Any) -> str:
    """A key as it is stored; empty if it cannot be."""
    key = nfc(raw).strip() if isinstance(raw, str) and not unusable_characters(raw) else ""
    return key if len(key) <= MAX_KEY_CHARACTERS else ""


def _cleaned(value: Any, depth: int) -> Any:
    """JSON that can be stored, or `ABSENT`. `depth` is that of the value itself, if it nests.

    A value with a part that cannot be stored is refused as a whole.
    """
    if isinstance(value, str):
        return ABSENT if unusable_characters(value) else nfc(value).strip()
    if isinstance(value, int | float):
        return value if is_double(value) else ABSENT
    if depth > MAX_DEPTH or not isinstance(value, Mapping | list | tuple):
        return ABSENT
    if isinstance(value, Mapping):
        pairs = {
            _key(key): _cleaned(inner, depth + 1) for key, inner in value.items() if says(inner)
        }
        return pairs if pairs and all(pairs) and _all_there(pairs.values()) else ABSENT
    items = [_cleaned(item, depth + 1) for item in value if says(item)]
    return items if items and _all_there(items) else ABSENT


def _all_there(items: Iterable[Any]) -> bool:
    return all(item is not ABSENT for item in items)


def copied(value: Any) -> Any:
    """The value of a field, to be changed at any depth."""
    if isinstance(value, Mapping):
        return {key: copied(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [copied(item) for item in value]
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _size(value: Any) -> int:
    return len(_json(value).encode())


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(_json(value))


def _identity(value: Any) -> str:
    """Equal for values that are the same JSON: 1 and 1.0, text except for space and normal form."""
    if isinstance(value, str):
        value = nfc(value).strip()
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    return _json(value)
