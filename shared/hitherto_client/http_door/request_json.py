"""Requests from proto3 JSON, and what is wrong with those that cannot be read.

protobuf's own reader decides; it stops at the first fault and describes it in its own terms. Only
then the request is walked through again, to name every fault by the caller's names of the fields.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any, NoReturn

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor

from hitherto_client.errors import Violation
from hitherto_client.http_door.connect_error import ConnectError, invalid, refusal

MAX_ELEMENTS = 250_000
"""Values in one request, as in the services: a few bytes of JSON become a hundred in memory."""
LARGE_BYTES = 64 * 1024
"""Requests of this size are read beside the event loop."""

_MAX_VIOLATIONS = 20
_UNREADABLE = (
    json_format.Error,
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    RecursionError,
)
"""What protobuf raises for JSON that is no message."""
_FREE_JSON = frozenset(
    f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "Any")
)
# Linear: every character is read once, in a string or outside.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_INTEGERS = (
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)
_REALS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)


def read_request(kind: Any, body: bytes) -> Any:
    """The request in a body.

    Raises:
        ConnectError: It is no such request.
    """
    _check_elements(body)
    given = _parsed(body)
    if not isinstance(given, dict):
        raise _undecodable("a request is a JSON object, in braces")
    request = kind()
    twice = _named_twice(kind.DESCRIPTOR, given, "") if b"_" in body else iter(())
    try:
        json_format.ParseDict(given, request)
    except _UNREADABLE as error:
        found = _some(chain(_faults(kind.DESCRIPTOR, given, ""), twice))
        raise invalid(found or [Violation("request", _first_line(error))]) from None
    if found := _some(twice):
        raise invalid(found)
    return request


def _parsed(body: bytes) -> Any:
    if not body.strip():
        raise _undecodable("the body is empty; an empty request is {}")
    try:
        return json.loads(body.decode(), object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise _undecodable(f"the body is not UTF-8, at byte {error.start}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        what = error.msg.removesuffix(" at")  # Some of Python's messages end so.
        raise _undecodable(f"the body is not JSON: {what} at {place}") from None
    except RecursionError:
        raise _undecodable("the body is nested too deep") from None
    except ValueError as error:
        raise _undecodable(f"the body is not JSON: {_first_line(error)}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = next(name for name in times if times[name] > 1)
        raise _undecodable(f"{twice[:200]!r} stands in one object twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise _undecodable(f'the body is not JSON: {name} is no value; a number may be "{name}"')


def _undecodable(told: str) -> ConnectError:
    return invalid([Violation("request", told)], "UNDECODABLE_REQUEST")


def _check_elements(body: bytes) -> None:
    """Refuse what would grow many times over; strings are left out of the count."""
    if _elements(body) <= MAX_ELEMENTS or _elements(_STRING.sub(b"", body)) <= MAX_ELEMENTS:
        return
    raise refusal(
        "resource_exhausted",
        f"a request may contain at most {MAX_ELEMENTS:,} values, and this one contains more: send"
        " less at once",
        "REQUEST_TOO_LARGE",
        {"max_elements": str(MAX_ELEMENTS)},
    )


def _elements(body: bytes) -> int:
    return body.count(b",") + body.count(b"{") + body.count(b"[")


def _some(found: Iterator[Violation]) -> list[Violation]:
    return [each for each, _ in zip(found, range(_MAX_VIOLATIONS), strict=False)]


def _faults(kind: Any, given: Any, path: str) -> Iterator[Violation]:
    """What is wrong with the JSON of a message of our own."""
    if not isinstance(given, dict):
        yield Violation(path or "request", f"should be an object, and is {_called(given)}")
        return
    known = {field.json_name: field for field in kind.fields} | dict(kind.fields_by_name)
    for name, value in given.items():
        place = f"{path}.{name}" if path else name
        field = known.get(name)
        if field is None:
            yield Violation(place, _unknown(kind, name, known))
        elif value is not None:
            yield from _faults_of_field(field, value, place, name)
    yield from _chosen_twice(kind, given, path)


def _faults_of_field(field: Any, value: Any, place: str, name: str) -> Iterator[Violation]:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        yield from _faults_of_map(field, value, place, name)
    elif field.is_repeated:
        if not isinstance(value, list):
            yield Violation(place, f"should be a list, and is {_called(value)}")
            return
        for number, each in enumerate(value):
            yield from _faults_of_value(field, each, f"{place}[{number}]", name, [each])
    else:
        yield from _faults_of_value(field, value, place, name, value)


def _faults_of_map(field: Any, value: Any, place: str, name: str) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield Violation(place, f"should be an object, and is {_called(value)}")
        return
    for key, each in value.items():
        if not _is_read(field, {name: {key: each}}):
            of = field.message_type.fields_by_name["value"]
            yield Violation(f"{place}.{key}", _expected(of, each))


def _faults_of_value(
    field: Any, value: Any, place: str, name: str, whole: Any
) -> Iterator[Violation]:
    inner = field.message_type
    if inner is not None and not inner.full_name.startswith("google.protobuf."):
        yield from _faults(inner, value, place)
    elif not _is_read(field, {name: whole}):
        yield Violation(place, _expected(field, value))


def _is_read(field: Any, given: dict[str, Any]) -> bool:
    """Whether protobuf reads one field by itself."""
    try:
        json_format.ParseDict(given, message_factory.GetMessageClass(field.containing_type)())
    except _UNREADABLE:
        return False
    return True


def _named_twice(kind: Any, given: Any, path: str) -> Iterator[Violation]:
    """The fields under both of their names, of which protobuf would take either."""
    if not isinstance(given, dict):
        return
    names: dict[int, str] = {}
    for name, value in given.items():
        field = kind.fields_by_name.get(name) or kind.fields_by_camelcase_name.get(name)
        if field is None:
            continue
        place = f"{path}.{name}" if path else name
        if (first := names.setdefault(field.number, name)) != name:
            yield Violation(place, f"cannot be given together with {first}")
        inner = field.message_type
        if inner is None or inner.full_name.startswith("google.protobuf."):
            continue
        if isinstance(value, list):
            for number, each in enumerate(value):
                yield from _named_twice(inner, each, f"{place}[{number}]")
        else:
            yield from _named_twice(inner, value, place)


def _chosen_twice(kind: Any, given: dict[str, Any], path: str) -> Iterator[Violation]:
    for choice in kind.oneofs:
        names = [field.json_name for field in choice.fields]
        names += [field.name for field in choice.fields if field.name != field.json_name]
        chosen = [name for name in names if given.get(name) is not None]
        if len(chosen) > 1:
            place = f"{path}.{chosen[1]}" if path else chosen[1]
            yield Violation(place, f"cannot be given together with {chosen[0]}")


def _unknown(kind: Any, name: str, known: dict[str, Any]) -> str:
    told = f"{kind.name} has no such field"
    near = difflib.get_close_matches(name[:100], known, n=1)
    if near:
        return f"{told}; did you mean {near[0]}?"
    return f"{told}; it has {', '.join(field.json_name for field in kind.fields) or 'none'}"


def _expected(field: Any, value: Any) -> str:
    return f"should be {_kind(field)}, and is {_called(value)}"


def _kind(field: Any) -> str:
    if field.message_type is not None:
        name = field.message_type.full_name
        if name in _FREE_JSON:
            return "JSON of valid Unicode that is not nested too deep"
        return _WELL_KNOWN.get(name, f"the JSON of {name}")
    if field.enum_type is not None:
        return f"one of {', '.join(value.name for value in field.enum_type.values)}"
    if field.cpp_type in _INTEGERS:
        return "a whole number in range"
    if field.cpp_type in _REALS:
        return "a number"
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return "true or false"
    return "base64" if field.type == FieldDescriptor.TYPE_BYTES else "text of valid Unicode"


_WELL_KNOWN = {
    "google.protobuf.Timestamp": "a time such as 2026-08-21T18:42:10Z or …T18:42:10+01:00",
    "google.protobuf.Duration": "seconds such as 1.5s",
    "google.protobuf.FieldMask": "field names in lowerCamelCase, separated by commas",
}


def _called(value: Any) -> str:
    """A value in a message: its kind, and itself if it is short."""
    name = next((name for kind, name in _KINDS if isinstance(value, kind)), "")
    if not name:
        return "null"
    if isinstance(value, dict | list):
        return name
    # Escapes: a lone surrogate could not be sent back.
    text = json.dumps(value, ensure_ascii=not _is_unicode(value))
    return f"{name} {text}" if len(text) <= 60 else name


_KINDS: tuple[tuple[Any, str], ...] = (
    (dict, "an object"),
    (list, "a list"),
    (str, "the text"),
    (bool, "the value"),
    (int | float, "the number"),
)


def _is_unicode(value: Any) -> bool:
    return not isinstance(value, str) or not any("\ud800" <= each <= "\udfff" for each in value)


def _first_line(error: BaseException) -> str:
    line = str(error).partition("\n")[0][:300] or type(error).__name__
    return line if _is_unicode(line) else "must be valid Unicode"
