"""The forms in which a message is sent over HTTP: binary, or proto3 JSON, whose faults are named.

A request that protobuf refuses is walked through again, to name every fault; one that it reads, to
find what it misreads.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache
from itertools import chain, islice
from typing import Any, NoReturn

from google.protobuf import json_format
from google.protobuf.field_mask_pb2 import FieldMask

from hitherto_client.errors import Violation
from hitherto_client.http_door import incoming
from hitherto_client.http_door.connect_error import ConnectError, invalid, refusal
from hitherto_client.http_door.methods import DoorMethod
from hitherto_client.json_faults import UNREADABLE, faults, is_unicode

MAX_ELEMENTS = 250_000
"""Values in one request, as in the services: a few bytes of JSON become a hundred in memory."""
_SHORT_BYTES = 4 * 1024
"""Requests up to this size are read on the event loop: a value may take a byte and ten µs."""
_MAX_VIOLATIONS = 20
_MAX_FOUND = 100
"""Violations to look at: many may be of one field, because long names are cut."""
_CAPITAL = re.compile(r"[A-Z]")
# Linear: every character is read once, in a string or outside.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def read_request(kind: Any, body: bytes) -> Any:
    """The request in a body."""
    _check_elements(body)
    given = _parsed(body)
    if not isinstance(given, dict):
        raise _undecodable("a request is a JSON object, in braces")
    request = kind()
    others = faults(kind.DESCRIPTOR, given, misread=True)
    masks = {
        name: field
        for name, field in _masks(kind.DESCRIPTOR).items()
        if isinstance(given.get(name), str) and is_unicode(given[name])
    }
    # Each becomes a value, though it stands in a string.
    _check_count(sum(given[name].count(",") + given[name].count(".") for name in masks))
    rest = {name: value for name, value in given.items() if name not in masks}
    try:
        json_format.ParseDict(rest, request)
    except UNREADABLE as error:
        found = _some(chain(faults(kind.DESCRIPTOR, rest), others))
        raise invalid(found or [Violation("request", _first_line(error))]) from None
    if found := _some(others):
        raise invalid(found)
    for name, field in masks.items():
        mask = getattr(request, field)
        mask.SetInParent()
        text = given[name].strip()
        mask.paths.extend(_path(each.strip(), given) for each in text.split(",") if text)
    return request


@cache
def _masks(kind: Any) -> dict[str, str]:
    """The fields with paths to change, by either of their names."""
    fields = [
        field
        for field in kind.fields
        if field.message_type is not None
        and field.message_type.full_name == FieldMask.DESCRIPTOR.full_name
    ]
    return {name: field.name for field in fields for name in (field.json_name, field.name)}


def _path(text: str, given: dict[str, Any]) -> str:
    """A path as the services take it: a field by its name in the protos, then keys of free JSON.

    protobuf writes keys as it writes names of fields, so `homeTown` may be either. It is the key
    that stands in the request, and `home_town` if there is none.
    """
    name, *keys = text.split(".")
    found = [_in_protos(name)]
    beside = _object_at(name, *given.values()) or _object_at(found[0], *given.values())
    for key in keys:
        found.append(key if key in beside else _in_protos(key))
        beside = _object_at(found[-1], beside)
    return ".".join(found)


def _in_protos(name: str) -> str:
    return name if "_" in name else _CAPITAL.sub(lambda found: f"_{found[0].lower()}", name)


def _object_at(name: str, *places: Any) -> dict[str, Any]:
    """The first object of this name in one of the places."""
    inside = (place.get(name) for place in places if isinstance(place, dict))
    return next((each for each in inside if isinstance(each, dict)), {})


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
    except ValueError:
        # Python's words are for programmers: how to raise its limit.
        most = f"{sys.get_int_max_str_digits():,}"
        raise _undecodable(f"the body contains a number of more than {most} digits") from None


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
    if _elements(body) > MAX_ELEMENTS:
        _check_count(_elements(_STRING.sub(b"", body)))


def _check_count(elements: int) -> None:
    if elements <= MAX_ELEMENTS:
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
    """The first ones, one of each field."""
    by_field: dict[str, Violation] = {}
    for each in islice(found, _MAX_FOUND):
        if len(by_field) == _MAX_VIOLATIONS:
            break
        by_field.setdefault(each.field, each)
    return list(by_field.values())


def _first_line(error: BaseException) -> str:
    line = str(error).partition("\n")[0][:300] or type(error).__name__
    return line if is_unicode(line) else "must be valid Unicode"


class Codec:
    """One form; this one is the binary form itself, which the services check."""

    name = "proto"
    """As in `application/NAME`."""

    async def request(self, method: DoorMethod, data: bytes) -> bytes:
        """A request in its binary form."""
        return data

    async def reply(self, method: DoorMethod, data: bytes) -> bytes:
        """A reply in this form."""
        return data


class JsonCodec(Codec):
    """proto3 JSON."""

    name = "json"

    def __init__(self) -> None:
        # What 4 MiB of JSON become takes a hundred megabytes; never several times at once.
        self._large = asyncio.Semaphore(1)

    async def request(self, method: DoorMethod, data: bytes) -> bytes:
        """A request in its binary form; large ones are read one after another."""
        if len(data) <= _SHORT_BYTES:
            return _binary(method, data)
        async with self._large if len(data) > incoming.LARGE_BYTES else nullcontext():
            return await asyncio.to_thread(_binary, method, data)

    async def reply(self, method: DoorMethod, data: bytes) -> bytes:
        """A reply as JSON; a large one is written in a thread."""
        if len(data) <= incoming.LARGE_BYTES:
            return _json(method, data)
        return await asyncio.to_thread(_json, method, data)


def _binary(method: DoorMethod, data: bytes) -> bytes:
    found: bytes = read_request(method.request, data).SerializeToString()
    return found


def _json(method: DoorMethod, data: bytes) -> bytes:
    told = json_format.MessageToDict(method.response.FromString(data))
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
