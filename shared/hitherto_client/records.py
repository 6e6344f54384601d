"""JSON lines of any length, read line by line: transcripts or memories for an import."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

from hitherto.v1 import memory_service_pb2
from hitherto_client.json_faults import UNREADABLE, faults

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Longer lines are passed over; a transcript that is larger is better given as several."""

_MOST_PARTS = 1_000_000
"""Commas in a line: its values take many times their bytes in memory."""

_ENUMS = {
    field.name: field
    for field in memory_service_pb2.SaveMemoryRequest.DESCRIPTOR.fields
    if field.type == FieldDescriptor.TYPE_ENUM
}


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a file."""

    line: int
    """Its number, from 1."""
    end: int
    """How many bytes of the file were read with it."""
    value: dict[str, Any] | None
    """The JSON object; None if there is none."""
    problem: str = ""
    """Why there is none."""


def read_records(stream: BinaryIO) -> Iterator[Record]:
    """Every line that is not blank, one at a time, the bad ones too."""
    line, end = 0, 0
    while raw := stream.readline(MAX_LINE_BYTES):
        line += 1
        end += len(raw)
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            while rest := stream.readline(MAX_LINE_BYTES):
                end += len(rest)
                if rest.endswith(b"\n"):
                    break
            yield Record(line, end, None, f"is longer than {MAX_LINE_BYTES // 2**20} MiB: split it")
            continue
        try:
            text = raw.decode("utf-8-sig" if line == 1 else "utf-8").strip()
            if text:
                yield Record(line, end, parse_object(text))
        except UnicodeDecodeError:
            yield Record(line, end, None, "is not UTF-8: save the file as UTF-8")
        except ValueError as error:
            yield Record(line, end, None, str(error))


def parse_object(line: str) -> dict[str, Any]:
    """The JSON object on a line.

    Raises:
        ValueError: There is none; the message says what is there instead.
    """
    if line.count(",") > _MOST_PARTS:
        raise ValueError("holds more than a million values: split it")
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"is not JSON ({error.msg} at column {error.colno}): each line is one JSON object"
        ) from None
    except (ValueError, RecursionError):
        raise ValueError("is JSON nested too deeply, or with a number that is too long") from None
    if not isinstance(found, dict):
        raise ValueError("is not a JSON object")
    return found


def memory_request(record: dict[str, Any], user_id: str) -> memory_service_pb2.SaveMemoryRequest:
    """The memory that a record describes, in the fields of SaveMemoryRequest.

    Other keys are ignored, so that listed memories can be handed over again. Words such as `goal`
    stand for `MEMORY_TYPE_GOAL`. It is about `user_id` where the record does not say whom.

    Raises:
        ValueError: It describes none.
    """
    if not isinstance(record.get("content"), str):
        raise ValueError("`content` is missing: it should be the statement")
    given = {
        name: _enum_name(_ENUMS[name], value) if name in _ENUMS else value
        for name, value in record.items()
    }
    request = memory_service_pb2.SaveMemoryRequest()
    fill(given, request)
    request.user_id = request.user_id or user_id
    if not request.user_id:
        raise ValueError("`user_id` is missing: add it, or name the user with --user")
    return request


def fill(record: dict[str, Any], into: Any) -> None:
    """Fill a message from proto JSON; keys that it has no field for are ignored.

    Raises:
        ValueError: A value does not fit its field.
    """
    found = next(faults(into.DESCRIPTOR, record, misread=True), None)
    if found is None:
        try:
            json_format.ParseDict(record, into, ignore_unknown_fields=True)
        except UNREADABLE:
            found = next(faults(into.DESCRIPTOR, record, more=True), None)
            if found is None:
                raise ValueError("holds a value that is out of range") from None
    if found is not None:
        raise ValueError(f"`{found.field}` {found.description}")


def _enum_name(field: FieldDescriptor, value: object) -> object:
    """`goal` as `MEMORY_TYPE_GOAL`; a word that the field does not know is refused by name."""
    if not isinstance(value, str):
        return value
    enum: Any = field.enum_type
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    name = value.strip().upper().replace("-", "_")
    name = name if name.startswith(prefix) else prefix + name
    # protobuf looks up no half of a character.
    if not name.isascii() or name not in enum.values_by_name:
        known = ", ".join(
            found.name.removeprefix(prefix).lower() for found in enum.values if found.number
        )
        raise ValueError(f"`{field.name}` should be one of {known}, and is {value!r}")
    return name
