"""How single values are shown to people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto_client.wire import word


def day(time: Timestamp) -> str:
    """The date in UTC, or nothing for an unset time."""
    return minute(time)[:10]


def minute(time: Timestamp) -> str:
    """Date and time in UTC to the minute, or nothing for an unset time."""
    if not time.seconds and not time.nanos:
        return ""
    try:
        return time.ToDatetime(tzinfo=UTC).strftime("%Y-%m-%d %H:%MZ")
    except (ValueError, OverflowError):
        return "(out of range)"


def free_json(value: Struct) -> str:
    """Free JSON in readable lines, or nothing for an empty object."""
    found = json_format.MessageToDict(value)
    return json.dumps(found, ensure_ascii=False, indent=2) if found else ""


def dollars(amount: float) -> str:
    """Money in US dollars."""
    return f"${amount:.4f}"


def short(text: str, length: int = 120) -> str:
    """The beginning of a text, with a sign that there is more."""
    return text if len(text) <= length else text[: length - 1] + "…"


def counted(counts: Mapping[str, int]) -> str:
    """CountsLine by name in one line, without the zeros."""
    shown = (f"{count} {name.replace('_', ' ')}" for name, count in sorted(counts.items()) if count)
    return ", ".join(shown)


def words(enum: EnumDescriptor) -> list[str]:
    """The values of an enum as people type them: `MEMORY_TYPE_GOAL` is `goal`."""
    return [word_of(enum, value.number) for value in enum.values if value.number != 0]


def word_of(enum: EnumDescriptor, number: int) -> str:
    """How a value of an enum is shown; nothing if it is not set."""
    return word(enum, number).replace("_", "-") if number else ""
