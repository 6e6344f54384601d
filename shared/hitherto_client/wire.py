"""Between the contract's messages and what callers see: requests from plain values, results.

Both directions follow the descriptors of the contract, so a field needs no code of its own.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from hitherto_client.json_faults import kind_of

Result = TypeVar("Result")
Request = TypeVar("Request", bound=Message)

_TIMESTAMP = "google.protobuf.Timestamp"
_DURATION = "google.protobuf.Duration"
_FREE_JSON = ("google.protobuf.Struct", "google.protobuf.Value")
_FIELD_MASK = "google.protobuf.FieldMask"


def build(kind: type[Request], **values: Any) -> Request:
    """A request from plain values; those that are None stay unset.

    Enumerated values are words, times are datetimes (naive ones are UTC), free JSON and nested
    messages are mappings. A tuple has all fields of a nested message, in their order.

    Raises:
        ValueError: A value is out of range, or a word or a key of a mapping is unknown.
        TypeError: A value has another type than its field.
    """
    request = kind()
    _fill(request, values, "")
    return request


def _fill(message: Message, values: Mapping[str, Any], path: str) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in values.items():
        place = f"{path}{name}"
        if name not in fields:
            raise ValueError(f"{place} is unknown: known are {', '.join(fields)}")
        if value is not None:
            try:
                _set(message, fields[name], value, place)
            except (UnicodeError, RecursionError):
                raise ValueError(f"{place} should be {kind_of(fields[name])}") from None
            except (json_format.ParseError, OverflowError) as error:
                raise ValueError(f"{place} cannot be sent: {error}") from None


def _set(message: Message, field: Any, value: Any, place: str) -> None:
    if field.is_repeated:
        _extend(getattr(message, field.name), field, value, place)
    elif field.message_type is not None:
        into = getattr(message, field.name)
        into.SetInParent()
        _set_message(into, value, place)
    else:
        if field.enum_type is not None:
            value = _number(field.enum_type, value, place)
        _assign(place, field, value, lambda: setattr(message, field.name, value))


def _extend(into: Any, field: Any, value: Any, place: str) -> None:
    nested = field.message_type
    if nested is not None and nested.GetOptions().map_entry:
        of = nested.fields_by_name["value"]
        for key, item in _mapping(value, place).items():
            _assign(f"{place}.{key}", of, item, partial(into.update, {key: item}))
        return
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{place} should be a list, and is {type(value).__name__}")
    for index, item in enumerate(value):
        at = f"{place}[{index}]"
        if nested is not None:
            _fill(into.add(), _mapping(item, at), f"{at}.")
        elif field.enum_type is not None:
            into.append(_number(field.enum_type, item, at))
        else:
            _assign(at, field, item, partial(into.append, item))


def _set_message(into: Any, value: Any, place: str) -> None:
    name = into.DESCRIPTOR.full_name
    if name == _TIMESTAMP:
        if not isinstance(value, datetime):
            raise TypeError(f"{place} should be a datetime, and is {type(value).__name__}")
        into.FromDatetime(value if value.tzinfo else value.replace(tzinfo=UTC))
    elif name == _FIELD_MASK:
        into.paths.extend(value)
    elif name in _FREE_JSON:
        given = value if name == _FREE_JSON[1] else dict(_mapping(value, place))
        try:
            json_format.ParseDict(given, into)
        except TypeError:
            raise TypeError(f"{place} should be JSON, with keys that are text") from None
    elif isinstance(value, tuple):
        names = [field.name for field in into.DESCRIPTOR.fields]
        if len(value) != len(names):
            raise ValueError(f"{place} should be a tuple of {', '.join(names)}")
        _fill(into, dict(zip(names, value, strict=True)), f"{place}.")
    else:
        _fill(into, _mapping(value, place), f"{place}.")


def _mapping(value: Any, place: str) -> Mapping[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if not isinstance(value, Mapping):
        raise TypeError(f"{place} should be a dict, and is {type(value).__name__}")
    return value


def paths_in(name: str, given: Mapping[str, Any]) -> list[str]:
    """The paths of what a mapping holds, for an update mask; an empty one is a value of its own."""
    found = []
    for key, value in given.items():
        path = f"{name}.{key}"
        found += paths_in(path, value) if isinstance(value, Mapping) and value else [path]
    return found


def put(into: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Put a value into nested mappings, which are made where there is none."""
    for key in path[:-1]:
        into = into.setdefault(key, {})
    into[path[-1]] = value


def listed(paths: Any, place: str) -> list[str]:
    """Paths that a caller gave for an update mask, in a list that stands at this place.

    Raises:
        TypeError: It is no list, or one of another type.
    """
    mask = FieldMask()
    _extend(mask.paths, mask.DESCRIPTOR.fields_by_name["paths"], paths, place)
    return list(mask.paths)


def _assign(place: str, field: Any, value: Any, do: Callable[[], Any]) -> None:
    """Store a value; protobuf names neither field nor value where they do not fit.

    It takes True for the number 1, and bytes for text.
    """
    told = f"{place} should be {kind_of(field)}"
    other = isinstance(value, bool) and field.type != FieldDescriptor.TYPE_BOOL
    if other or (isinstance(value, bytes) and field.type == FieldDescriptor.TYPE_STRING):
        raise TypeError(f"{told}, and is {type(value).__name__}")
    try:
        do()
    except TypeError:
        raise TypeError(f"{told}, and is {type(value).__name__}") from None
    except ValueError:
        raise ValueError(told) from None


def _number(enum: EnumDescriptor, word: Any, place: str) -> int:
    """The value of an enum that a word names; if there is none, the error lists those there are."""
    known = _numbers(enum)
    if not isinstance(word, str) or word not in known:
        raise ValueError(f"{place} should be one of {', '.join(known)}, and is {word!r}")
    return known[word]


@lru_cache(maxsize=64)
def _numbers(enum: EnumDescriptor) -> dict[str, int]:
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return {value.name.removeprefix(prefix).lower(): value.number for value in enum.values}


def word(enum: EnumDescriptor, number: int) -> str:
    """The word for a value of an enum; one that only a newer service has is `unknown_11`."""
    return _words(enum).get(number, f"unknown_{number}")


@lru_cache(maxsize=64)
def _words(enum: EnumDescriptor) -> dict[int, str]:
    return {value: word for word, value in _numbers(enum).items()}


def read(kind: type[Result], message: Message) -> Result:
    """The dataclass of a reply: each of its fields from the field of the same name."""
    plan = _plan(cast(Any, kind), message.DESCRIPTOR)
    return kind(**{name: convert(message) for name, convert in plan})


def read_beside(kind: type[Result], reply: Message, name: str) -> Result:
    """The dataclass of a message in a reply, with fields of the reply beside it."""
    inner = getattr(reply, name)
    hints = typing.get_type_hints(kind)
    values = {}
    for field in dataclasses.fields(cast(Any, kind)):
        holder = inner if field.name in inner.DESCRIPTOR.fields_by_name else reply
        of: Any = holder.DESCRIPTOR.fields_by_name[field.name]
        values[field.name] = reader(of, hints[field.name])(holder)
    return kind(**values)


Convert = Callable[[Any], Any]


@lru_cache(maxsize=256)
def _plan(kind: type, descriptor: Any) -> tuple[tuple[str, Convert], ...]:
    hints = typing.get_type_hints(kind)
    return tuple(
        (field.name, reader(descriptor.fields_by_name[field.name], hints[field.name]))
        for field in dataclasses.fields(kind)
    )


def reader(field: FieldDescriptor, hint: Any) -> Convert:
    """What reads a field from its message, as its annotation says."""
    name = field.name
    nested = field.message_type
    if nested is not None and nested.GetOptions().map_entry:
        each = _value_reader(nested.fields_by_name["value"], hint)
        return lambda message: {key: each(item) for key, item in getattr(message, name).items()}
    of = _value_reader(field, hint)
    if field.is_repeated:
        return lambda message: tuple(of(item) for item in getattr(message, name))
    if field.has_presence and type(None) in typing.get_args(hint):
        return lambda message: of(getattr(message, name)) if message.HasField(name) else None
    return lambda message: of(getattr(message, name))


def _value_reader(field: FieldDescriptor, hint: Any) -> Convert:
    if field.enum_type is not None:
        enum = field.enum_type
        return lambda value: word(enum, value)
    nested = field.message_type
    if nested is None:
        return lambda value: value
    if nested.full_name == _TIMESTAMP:
        return lambda value: value.ToDatetime(tzinfo=UTC)
    if nested.full_name == _DURATION:
        return lambda value: value.ToTimedelta()
    if nested.full_name in _FREE_JSON:
        return json_format.MessageToDict
    kind = dataclass_in(hint)
    return lambda value: read(kind, value)


def dataclass_in(hint: Any) -> Any:
    """The dataclass in `Memory`, `Memory | None`, `tuple[Memory, ...]`, `dict[str, Memory]`."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return hint
    return next(filter(None, map(dataclass_in, typing.get_args(hint))), None)
