"""What the profile loses when a source is taken back. Pure.

Every change of a source is undone where its value still stands: a single value goes back to what
it was before, an item that joined a list leaves it. What somebody else has changed since stays.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

Path = tuple[str, ...]

_ABSENT = object()


def undo(
    current: Mapping[str, Any], events: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> tuple[dict[str, Any], list[Path]]:
    """The profile without what the events brought, and the paths that change.

    Args:
        current: The profile's content as it stands.
        events: What the source changed, newest first: content before and after.
    """
    held: dict[str, Any] = copy.deepcopy(dict(current))
    paths: dict[Path, None] = {}
    for before, after in events:
        for path in _differing(before, after, ()):
            if _undo_one(held, path, _at(before, path), _at(after, path)):
                paths[path] = None
    return held, list(paths)


def _undo_one(held: dict[str, Any], path: Path, old: Any, new: Any) -> bool:
    now = _at(held, path)
    if isinstance(new, list) and isinstance(now, list):
        known = old if isinstance(old, list) else []
        kept = [item for item in now if item not in new or item in known]
        if kept == now:
            return False
        _put(held, path, kept or (old if old is not _ABSENT else _ABSENT))
        return True
    if now is _ABSENT or now != new:
        return False
    _put(held, path, old)
    return True


def _differing(before: Any, after: Any, path: Path) -> list[Path]:
    """Paths of the values that differ, objects looked into."""
    if isinstance(after, Mapping) and (isinstance(before, Mapping) or before is _ABSENT):
        known = before if isinstance(before, Mapping) else {}
        found: list[Path] = []
        for key, value in after.items():
            if known.get(key, _ABSENT) != value:
                found.extend(_differing(known.get(key, _ABSENT), value, (*path, key)))
        return found
    return [path] if path else []


def _at(value: Any, path: Path) -> Any:
    found = value
    for key in path:
        if not isinstance(found, Mapping) or key not in found:
            return _ABSENT
        found = found[key]
    return found


def _put(held: dict[str, Any], path: Path, value: Any) -> None:
    inner = held
    for key in path[:-1]:
        inner = inner[key]
    if value is _ABSENT:
        inner.pop(path[-1], None)
    else:
        inner[path[-1]] = value
