"""Reads what an update is to change: the mask's paths, or every field with a value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from google.protobuf.message import Message

from hitherto_extraction.pipeline.free_json import Path
from hitherto_shared.text.normalise import nfc
from hitherto_shared.validation import Checks


def read_update_mask(
    checks: Checks,
    request: Any,
    given: Message,
    fields: Sequence[str],
    *,
    deep: Collection[str] = (),
    example: str = "",
    most: int = 200,
) -> list[Path]:
    """The paths to change.

    Args:
        checks: Collects violations.
        request: A request with the field `update_mask`.
        given: Its new values.
        fields: The fields that can be changed.
        deep: Those of free-form JSON, in which a path may name a key.
        example: Such a path.
        most: Maximum paths.
    """
    if not request.HasField("update_mask"):
        named = {field.name for field, _ in given.ListFields()}
        return [(name,) for name in fields if name in named]
    paths = request.update_mask.paths
    if len(paths) > most:
        checks.add("update_mask", f"must have at most {most} paths")
        return []
    found: list[Path] = []
    for i, text in enumerate(paths):
        path = tuple(nfc(text).split("."))
        if path[0] not in fields or "" in path or (len(path) > 1 and path[0] not in deep):
            inside = f", or a path into {_listed(deep)} such as {example}" if deep else ""
            checks.add(f"update_mask.paths[{i}]", f"must be one of {', '.join(fields)}{inside}")
        else:
            found.append(path)
    return found


def _listed(names: Collection[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}"
