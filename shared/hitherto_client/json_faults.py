"""What is wrong with JSON that should be a message, by the caller's names of its fields.

protobuf's own reader decides; it stops at the first fault, describes it in its own terms, and takes
some values for others: `true` for the number 1, 1.5 for the first of an enumeration, times of zones
that do not exist.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor

from hitherto_client.errors import Violation

UNREADABLE = (
    json_format.Error,
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    OverflowError,
    RecursionError,
    SystemError,
)
"""What protobuf raises for JSON that is no message: the last for names with half a character."""

_INTEGERS = (
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)
_REALS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_MOST_PROBES = 2_000
"""Values of one request that protobuf reads one by one. What is wrong with later ones is found only
if it shows without that."""
_MOST_SHOWN = 100
"""Characters of a caller's name in an error: it may be as long as the request."""
_NO_FINITE_NUMBERS = frozenset({"NaN", "Infinity", "-Infinity"})
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_DURATION = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,9})?s")


def faults(
    kind: Any,
    given: Any,
    path: str = "",
    *,
    more: bool = False,
    misread: bool = False,
    probes: Iterator[int] | None = None,
) -> Iterator[Violation]:
    """What is wrong with the JSON of a message of our own.

    Args:
        kind: The descriptor of the message.
        given: The parsed JSON.
        path: The place of the message in the request.
        more: Whether it may have keys that are no fields.
        misread: Whether protobuf reads it. Only what it takes for something else is then told:
            values of other types, and fields under both of their names, of which it takes either.
        probes: Counts the values that protobuf has read one by one; from 0 if it is left out.
    """
    if not isinstance(given, dict):
        if not misread:
            yield Violation(path or "request", f"should be an object, and is {_called(given)}")
        return
    how = {"more": more, "misread": misread, "probes": probes or count()}
    known = _named(kind)
    names: dict[int, str] = {}
    for name, value in given.items():
        place = _place(path, name)
        field = known.get(name)
        if field is None:
            if not (more or misread):
                yield Violation(place, _unknown(kind, name))
            continue
        if (first := names.setdefault(field.number, name)) != name:
            yield Violation(place, f"cannot be given together with {first}")
        if value is not None:
            yield from _faults_of_field(field, value, place, name, **how)
    if not misread:
        yield from _chosen_twice(kind, given, path)


def _faults_of_field(
    field: Any, value: Any, place: str, name: str, **how: Any
) -> Iterator[Violation]:
    if not field.is_repeated:
        yield from _faults_of_value(field, field, value, place, {name: value}, **how)
        return
    each: Any
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    wanted: Any
    wanted, called = (dict, "an object") if is_map else (list, "a list")
    if not isinstance(value, wanted):
        if not how["misread"]:
            yield Violation(place, f"should be {called}, and is {_called(value)}")
    elif is_map:
        of = field.message_type.fields_by_name["value"]
        for key, each in value.items():
            whole = {name: {key: each}}
            yield from _faults_of_value(field, of, each, _place(place, key), whole, **how)
    else:
        for number, each in enumerate(value):
            at = f"{place}[{number}]"
            yield from _faults_of_value(field, field, each, at, {name: [each]}, **how)


def _faults_of_value(
    field: Any, of: Any, value: Any, place: str, whole: dict[str, Any], **how: Any
) -> Iterator[Violation]:
    """Of a value of the type of `of`, which stands alone in the JSON `whole` of `field`."""
    inner = of.message_type
    if inner is not None and not inner.full_name.startswith("google.protobuf."):
        yield from faults(inner, value, place, **how)
    elif _is_other(of, value) or not (
        how["misread"] or next(how["probes"]) >= _MOST_PROBES or _is_read(field, whole)
    ):
        yield Violation(place, f"should be {kind_of(of)}, and is {_called(value)}")


def _is_other(field: Any, value: Any) -> bool:
    """Whether protobuf may take this value although it is none of the field's type."""
    if isinstance(value, str):
        return _is_other_text(field, value)
    if field.enum_type is not None:
        return isinstance(value, bool) or (isinstance(value, float) and not value.is_integer())
    return field.cpp_type in _REALS and isinstance(value, bool)


def _is_other_text(field: Any, value: str) -> bool:
    if field.message_type is not None:
        form = {"Timestamp": _TIME, "Duration": _DURATION}.get(field.message_type.name)
        return form is not None and form.fullmatch(value) is None
    if field.enum_type is not None:
        known = value.isascii() and value in field.enum_type.values_by_name
        return not known and _INTEGER.fullmatch(value) is None
    if field.cpp_type in _INTEGERS or field.cpp_type in _REALS:
        return value not in _NO_FINITE_NUMBERS and _NUMBER.fullmatch(value) is None
    return False


@cache
def _named(kind: Any) -> dict[str, Any]:
    """The fields of a message by either of their names."""
    return {field.json_name: field for field in kind.fields} | dict(kind.fields_by_name)


def _is_read(field: Any, given: dict[str, Any]) -> bool:
    """Whether protobuf reads one field by itself."""
    try:
        json_format.ParseDict(given, message_factory.GetMessageClass(field.containing_type)())
    except UNREADABLE:
        return False
    return True


def _chosen_twice(kind: Any, given: dict[str, Any], path: str) -> Iterator[Violation]:
    for choice in kind.oneofs:
        names = [field.json_name for field in choice.fields]
        names += [field.name for field in choice.fields if field.name != field.json_name]
        chosen = [name for name in names if given.get(name) is not None]
        if len(chosen) > 1:
            yield Violation(_place(path, chosen[1]), f"cannot be given together with {chosen[0]}")


def _place(path: str, name: str) -> str:
    """The place of a field or key, as far as it can be sent back: names are the caller's."""
    shown = name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}…"
    if not is_unicode(shown):
        shown = json.dumps(shown)[1:-1]
    return f"{path}.{shown}" if path else shown


def _unknown(kind: Any, name: str) -> str:
    told = f"{kind.name} has no such field"
    near = difflib.get_close_matches(name[:_MOST_SHOWN], _named(kind), n=1)
    if near:
        return f"{told}; did you mean {near[0]}?"
    return f"{told}; it has {', '.join(field.json_name for field in kind.fields) or 'none'}"


def kind_of(field: Any) -> str:
    """What the values of a field are, for people."""
    if field.message_type is not None:
        name = field.message_type.full_name
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


_FREE = "of valid Unicode that is not nested too deep"
_WELL_KNOWN = {
    "google.protobuf.Timestamp": "a time such as 2026-08-21T18:42:10Z or …T18:42:10+01:00",
    "google.protobuf.Duration": "seconds such as 1.5s",
    "google.protobuf.FieldMask": "names of fields, separated by commas",
    "google.protobuf.Struct": f"a JSON object {_FREE}",
    "google.protobuf.ListValue": f"a JSON list {_FREE}",
    "google.protobuf.Value": f"JSON {_FREE}",
    "google.protobuf.Any": f"JSON {_FREE}",
}


def _called(value: Any) -> str:
    """A value in a message: its kind, and itself if it is short."""
    name = next((name for kind, name in _KINDS if isinstance(value, kind)), "")
    if not name:
        return "null"
    if isinstance(value, dict | list):
        return name
    if isinstance(value, str) and len(value) > 60:
        return name
    # Escapes: a lone surrogate could not be sent back.
    text = json.dumps(value, ensure_ascii=not is_unicode(value))
    return f"{name} {text}" if len(text) <= 60 else name


_KINDS: tuple[tuple[Any, str], ...] = (
    (dict, "an object"),
    (list, "a list"),
    (str, "the text"),
    (bool, "the value"),
    (int | float, "the number"),
)


def is_unicode(value: Any) -> bool:
    """Whether a value is no text with half a character."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True
