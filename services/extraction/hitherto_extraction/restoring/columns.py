"""The kinds of values in a record of an export, and their checks.

A kind takes the collected violations, the path of the value and the value as parsed from JSON. It
returns what is stored. Texts come out in normal form C.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from hitherto_shared.identifiers import parse_uuid
from hitherto_shared.text.normalise import nfc, unusable_characters
from hitherto_shared.validation import Checks

Kind = Callable[[Checks, str, Any], Any]

MAX_DEPTH = 24
"""Levels of free-form JSON: those that a caller may send, inside what the services put around."""
_YEARS = range(1900, 2201)
_DIGEST = re.compile(r"\\x[0-9a-f]{64}")
_SHOWN = 64
"""Characters of a foreign key in the path of a violation."""


@dataclass(frozen=True, slots=True)
class MayBeAbsent:
    """A column that a record need not have, and what is stored then."""

    kind: Kind
    default: Any = None


Column = Kind | MayBeAbsent
"""A column of a record, which must have it unless it is one that may be absent."""
RowCheck = Callable[[Checks, str, dict[str, Any]], None]
"""Checks what depends on several columns of a checked row."""


def _only(fits: Callable[[Any], bool], must: str) -> Kind:
    """Values that fit; the others `must` be different."""

    def check(checks: Checks, field: str, value: Any) -> Any:
        return value if fits(value) else refused(checks, field, must)

    return check


def _written(check: Callable[[Checks, str, str], Any]) -> Kind:
    """Texts that pass a check."""
    return lambda checks, field, value: (
        check(checks, field, value)
        if isinstance(value, str)
        else refused(checks, field, "must be a text")
    )


def text(max_bytes: int, *, required: bool = False) -> Kind:
    """Free text."""
    return _written(partial(Checks.text, max_bytes=max_bytes, required=required))


def name(max_chars: int, *, required: bool = True) -> Kind:
    """An id or a name: printable characters."""
    return _written(partial(Checks.identifier, required=required, max_chars=max_chars))


def one_of(*words: str) -> Kind:
    """One of a few words."""
    return _only(
        lambda value: isinstance(value, str) and value in words,
        f"must be one of {', '.join(words)}",
    )


def whole(least: int, most: int) -> Kind:
    """A whole number."""
    return _only(
        lambda value: type(value) is int and least <= value <= most,
        f"must be a whole number from {least} to {most}",
    )


def number(least: int, most: int) -> Kind:
    """A number."""
    return _only(
        lambda value: type(value) in (int, float) and least <= value <= most,
        f"must be a number from {least} to {most}",
    )


flag = _only(lambda value: isinstance(value, bool), "must be true or false")

digest = _only(
    lambda value: isinstance(value, str) and _DIGEST.fullmatch(value) is not None,
    "must be \\x and 64 hexadecimal digits",
)
"""32 bytes in the notation of Postgres."""


def moment(checks: Checks, field: str, value: Any) -> Any:
    """A point in time with its offset."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        return refused(checks, field, "must be a time such as 2026-03-01T12:00:00+00:00")
    if found.year not in _YEARS:
        return refused(checks, field, "must lie between the years 1900 and 2200")
    return found.isoformat()


def uid(checks: Checks, field: str, value: Any) -> Any:
    """An id created by a service."""
    found = parse_uuid(value) if isinstance(value, str) else None
    if found is None:
        return refused(checks, field, "must be an id as the service exported it (a UUID)")
    return str(found)


def time_zone(checks: Checks, field: str, value: Any) -> Any:
    """An IANA time zone."""
    if not isinstance(value, str) or not value:
        return refused(checks, field, "must be an IANA time zone such as Europe/Berlin")
    return checks.time_zone(field, value)


def optional(kind: Kind) -> Kind:
    """Null, or what `kind` allows."""
    return lambda checks, field, value: None if value is None else kind(checks, field, value)


def several(kind: Kind, most: int) -> Kind:
    """A list of at most `most` values."""

    def check(checks: Checks, field: str, value: Any) -> Any:
        if not isinstance(value, list):
            return refused(checks, field, "must be a list")
        if len(value) > most:
            return refused(checks, field, f"must have at most {most} items, this has {len(value)}")
        return [kind(checks, f"{field}[{i}]", item) for i, item in enumerate(value)]

    return check


def free(max_bytes: int, kind: type | None = dict) -> Kind:
    """Free-form JSON: an object, with `list` a list, with None any value."""

    def check(checks: Checks, field: str, value: Any) -> Any:
        if kind is not None and not isinstance(value, kind):
            what = "an object" if kind is dict else "a list"
            return refused(checks, field, f"must be {what}")
        found = _cleaned(checks, field, value, 0)
        if len(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace")) > max_bytes:
            return refused(checks, field, f"must have at most {max_bytes} bytes")
        return found

    return check


def shaped(values: Mapping[str, Column], max_bytes: int, *, closed: bool = False) -> Kind:
    """Free-form JSON: an object with these values, with `closed` no others.

    A value that is absent stays so, whatever its default.
    """

    def check(checks: Checks, field: str, value: Any) -> Any:
        found = free(max_bytes)(checks, field, value)
        if not isinstance(found, dict):
            return found
        if closed:
            _refuse_others(checks, field, found.keys() - values.keys())
        return found | _checked(checks, field, found, values)

    return check


def check_row(
    checks: Checks,
    field: str,
    row: dict[str, Any],
    columns: Mapping[str, Column],
    ignored: Collection[str],
) -> dict[str, Any]:
    """The columns of a record, checked, without those in `ignored`; None for a refused value."""
    _refuse_others(checks, field, row.keys() - columns.keys() - set(ignored))
    defaults = {
        column: rule.default for column, rule in columns.items() if isinstance(rule, MayBeAbsent)
    }
    return defaults | _checked(checks, field, row, columns)


def _checked(
    checks: Checks, field: str, row: Mapping[str, Any], columns: Mapping[str, Column]
) -> dict[str, Any]:
    found = {}
    for column, rule in columns.items():
        kind = rule.kind if isinstance(rule, MayBeAbsent) else rule
        if column in row:
            found[column] = kind(checks, f"{field}.{column}", row[column])
        elif kind is rule:
            checks.add(f"{field}.{column}", "is required")
            found[column] = None
    return found


def _refuse_others(checks: Checks, field: str, names: Collection[str]) -> None:
    for unknown in names:
        checks.add(f"{field}.{unknown[:_SHOWN]!r}", "is not known to this version of the service")


def _cleaned(checks: Checks, field: str, value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return refused(checks, field, f"must not be nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        return _normal(checks, field, value)
    if isinstance(value, dict):
        return {
            _normal(checks, field, key): _cleaned(
                checks, f"{field}.{key[:_SHOWN]!r}", item, depth + 1
            )
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_cleaned(checks, f"{field}[{i}]", item, depth + 1) for i, item in enumerate(value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if _finite(value) else refused(checks, field, "must be a finite number")
    return value


def _finite(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _normal(checks: Checks, field: str, value: str) -> str:
    if (why := unusable_characters(value)) is not None:
        checks.add(field, why)
        return ""
    return nfc(value)


def refused(checks: Checks, field: str, why: str) -> None:
    """Note a violation; what is stored is nothing."""
    checks.add(field, why)
