"""Checks the arguments of a tool call against its schema; a model's arguments are foreign input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hitherto_client.days import first_moment, read_day

LONGEST_ARGUMENTS = 256 * 1024
"""Characters of arguments that come as JSON text."""

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
}


class ToolArgumentError(ValueError):
    """The arguments of a tool call do not fit; the message tells the model what would."""


def read_arguments(given: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Arguments as model APIs give them: JSON text, an object, or nothing."""
    if given is None or given == "":
        return {}
    if not isinstance(given, str):
        return given
    if len(given) > LONGEST_ARGUMENTS:
        raise ToolArgumentError(f"the arguments are longer than {LONGEST_ARGUMENTS} characters")
    try:
        value = json.loads(given)
    except (ValueError, RecursionError):
        raise ToolArgumentError("the arguments are not valid JSON") from None
    if not isinstance(value, dict):
        raise ToolArgumentError("the arguments must be a JSON object")
    return value


def check(schema: Mapping[str, Any], value: Any, path: str = "") -> None:
    """Check a value against the part of JSON Schema that the tools use."""
    where = path or "the arguments"
    kind = schema["type"]
    fits = isinstance(value, _TYPES[kind])
    if not fits or (isinstance(value, bool) and kind != "boolean"):
        raise ToolArgumentError(f"{where} must be of type {kind}")
    if kind == "object":
        _check_object(schema, value, path)
    elif kind == "array":
        if len(value) > schema["maxItems"]:
            raise ToolArgumentError(f"{where} may have at most {schema['maxItems']} items")
        for place, item in enumerate(value):
            check(schema["items"], item, f"{path}[{place}]")
    elif kind == "string":
        _check_text(schema, value, where)
    elif kind in ("integer", "number"):
        low, high = schema["minimum"], schema["maximum"]
        if not low <= value <= high:
            raise ToolArgumentError(f"{where} must be between {low} and {high}")


def _check_object(schema: Mapping[str, Any], value: Mapping[str, Any], path: str) -> None:
    if schema["additionalProperties"]:
        return
    known = schema["properties"]
    for name in schema["required"]:
        if name not in value:
            raise ToolArgumentError(f"{_inner(path, name)} is required")
    for name, item in value.items():
        if name not in known:
            raise ToolArgumentError(
                f"{_inner(path, str(name))} is unknown; known: {', '.join(known) or 'none'}"
            )
        # Many models spell out what they leave unset.
        if item is not None or name in schema["required"]:
            check(known[name], item, _inner(path, name))


def _check_text(schema: Mapping[str, Any], value: str, where: str) -> None:
    if "enum" in schema:
        if value not in schema["enum"]:
            raise ToolArgumentError(f"{where} must be one of: {', '.join(schema['enum'])}")
    elif not value.strip():
        raise ToolArgumentError(f"{where} is empty")
    elif len(value) > schema["maxLength"]:
        raise ToolArgumentError(f"{where} is longer than {schema['maxLength']} characters")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise ToolArgumentError(f"{where} is not valid Unicode text")


def moment(value: str, where: str) -> datetime:
    """When a day of the user begins, or a time."""
    try:
        return first_moment(read_day(value))
    except (ValueError, OverflowError):
        raise ToolArgumentError(
            f"{where} must be a day as 2026-08-21 or a time as 2026-08-21T14:30:00Z"
        ) from None


def _inner(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
