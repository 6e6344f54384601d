"""Free-form JSON: cleaned, kept within the contract's size, read and changed by path."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from hitherto_shared.text.normalise import nfc

MAX_STRUCT_BYTES = 64 * 1024
MAX_STRUCT_DEPTH = 16
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PAIR = {"key", "value"}
SOURCES = "source_message_ids"
"""What an item of a reply cites, which says nothing by itself."""
ABSENT = object()
"""In the place of a value that is not there."""

Path = tuple[str, ...]
"""The keys that lead to a value, from the outermost on."""


def text_of(value: Any) -> str:
    """A text that can be stored; empty for everything else."""
    return nfc(_UNSTORABLE.sub("", value)).strip() if isinstance(value, str) else ""


def clean(value: Any, depth: int = 0) -> Any:
    """`value` with text that can be stored, and without numbers that JSON does not have."""
    if depth > MAX_STRUCT_DEPTH:
        return None
    if isinstance(value, str):
        return text_of(value)
    if isinstance(value, int | float):
        return value if is_double(value) else None
    if isinstance(value, list):
        return [clean(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {text_of(key): clean(item, depth + 1) for key, item in value.items() if text_of(key)}
    return value


def is_double(number: float) -> bool:
    """Whether a number can be transmitted: on the wire every number is a finite double."""
    return -sys.float_info.max <= number <= sys.float_info.max


def without_pairs(value: Any) -> Any:
    """An object for every list of pairs of `key` and `value` in cleaned JSON.

    The schema requests pairs where keys are free, because no schema limits the keys of an object.
    Of equal keys the first one counts, and of a list the pairs.
    """
    if isinstance(value, list):
        pairs = [item for item in value if isinstance(item, dict) and item.keys() == _PAIR]
        if not pairs:
            return [without_pairs(item) for item in value]
        named = [(item["key"], item["value"]) for item in reversed(pairs)]
        return {key: without_pairs(item) for key, item in named if key and isinstance(key, str)}
    if isinstance(value, dict):
        return {key: without_pairs(item) for key, item in value.items()}
    return value


def fits_struct(value: Mapping[str, Any]) -> bool:
    """Whether free-form JSON is within the contract's size."""
    return len(json.dumps(value, ensure_ascii=False).encode()) <= MAX_STRUCT_BYTES


def says(value: Any, depth: int = 0) -> bool:
    """Whether a value of a reply has any content."""
    if isinstance(value, dict) and depth <= MAX_STRUCT_DEPTH:
        return any(says(each, depth + 1) for name, each in value.items() if name != SOURCES)
    if isinstance(value, str):
        return bool(value.strip())
    return value is not None and value not in ([], {})


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The values of nested objects that say something, each with its path; a list is one value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif says(value):
        yield path, value


def value_at(value: Any, path: Path) -> Any:
    """The value at a path, `ABSENT` if there is none."""
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return ABSENT
        value = value[key]
    return value


def new_value_at(values: Any, path: Path) -> Any:
    """What a change makes of a path: `ABSENT`, to remove it, for no value and for null."""
    value = value_at(values, path)
    return ABSENT if value is None else value


def put_at(held: dict[str, Any], path: Path, value: Any, *, prune: bool = False) -> None:
    """Set a value, or remove it with `ABSENT`; missing objects are made, other values replaced.

    With `prune`, objects within a field that become empty are removed too.
    """
    inner, ways = held, []
    for key in path[:-1]:
        following = inner.get(key)
        if not isinstance(following, dict):
            if value is ABSENT:
                return
            following = inner[key] = {}
        ways.append((inner, key))
        inner = following
    if value is not ABSENT:
        inner[path[-1]] = value
        return
    inner.pop(path[-1], None)
    for outer, key in reversed(ways if prune else ()):
        if outer[key] or outer is held:
            break
        del outer[key]
