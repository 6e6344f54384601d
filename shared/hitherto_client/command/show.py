"""How replies are shown to people: rows, a record, counts, and the single values in them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto_client.command.output import Output
from hitherto_client.days import iso_day
from hitherto_client.wire import word

Value = str | Callable[[Any], object]
"""Of a message: the name of a field, or what makes the cell."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    heading: str
    value: Value
    number: bool = False
    """True aligns it to the right."""
    whole: bool = False
    """True keeps its cells on one line."""


Pair = str | tuple[str, Value]
"""A line of a record: its heading and its value, or one field that is called like its heading."""


def cell(message: Any, value: Value) -> object:
    """A field as it is shown: words for enums, times to the minute, lists in one line."""
    if not isinstance(value, str):
        return value(message)
    if not isinstance(message, Message):
        return getattr(message, value)
    of: Any = message.DESCRIPTOR.fields_by_name[value]
    found = getattr(message, value)
    if of.is_repeated:
        return ", ".join(found)
    if of.enum_type is not None:
        return word_of(of.enum_type, found)
    if of.message_type is not None:
        return minute(found) if of.message_type.name == "Timestamp" else free_json(found)
    if of.type == of.TYPE_BOOL:
        return "yes" if found else ""
    return found


def show_rows(
    output: Output, given: Sequence[Column | str], rows: Iterable[Any], *, on_stderr: bool = False
) -> None:
    """A table with a row for each message or other object.

    A text in `given` stands for a field that is called like its heading. `on_stderr` writes the
    table beside the output instead of into it.
    """
    columns = [Column(each, each) if isinstance(each, str) else each for each in given]
    output.table(
        [column.heading for column in columns],
        [[cell(row, column.value) for column in columns] for row in rows],
        numbers=[column.heading for column in columns if column.number],
        whole=[column.heading for column in columns if column.whole],
        on_stderr=on_stderr,
    )


def show_record(output: Output, given: Sequence[Pair], message: Any) -> None:
    """One message, a line for each field that has a value."""
    pairs = [(each, each) if isinstance(each, str) else each for each in given]
    output.pairs((heading, cell(message, value)) for heading, value in pairs)


@dataclass(frozen=True, slots=True)
class Rows:
    """Shows a list. Names in braces are those of the options."""

    field: str
    """The field of the reply."""
    columns: Sequence[Column | str]
    empty: str = ""
    """What is said of an empty list; empty: its headings are shown."""
    note: str = ""
    """What is said below it."""

    def __call__(self, output: Output, options: argparse.Namespace, reply: Any) -> None:
        """Write the rows, and how to go on if there are more."""
        rows = getattr(reply, self.field)
        if self.empty and not rows:
            output.note(nothing(self.empty.format(**vars(options)), getattr(reply, "reason", "")))
            return
        show_rows(output, self.columns, rows)
        output.more(
            len(rows), getattr(reply, "total_size", None), getattr(reply, "next_page_token", "")
        )
        if self.note:
            output.note(self.note.format(**vars(options)))


@dataclass(frozen=True, slots=True)
class OneRecord:
    """Shows one thing."""

    field: str
    """The field of the reply."""
    pairs: Sequence[Pair]
    missing: str = ""
    """What is said if the reply gives a reason for having none."""

    def __call__(self, output: Output, options: argparse.Namespace, reply: Any) -> None:
        """Write the fields that have a value."""
        if self.missing and reply.reason:
            output.note(nothing(self.missing, reply.reason))
        else:
            show_record(output, self.pairs, getattr(reply, self.field))


@dataclass(frozen=True, slots=True)
class CountsLine:
    """Shows what was done, by counts."""

    done: str
    note: str = ""
    """What is said below it."""

    def __call__(self, output: Output, options: argparse.Namespace, reply: Any) -> None:
        """Write the counts in one line."""
        output.line(f"{self.done}: {counted(reply.counts) or 'nothing was left'}")
        if self.note:
            output.note(self.note.format(**vars(options)))


def nothing(text: str, reason: str) -> str:
    """What is said where there is nothing to show, with the service's reason if it gives one."""
    return f"{text} ({reason})" if reason else text


def day(time: Timestamp) -> str:
    """The date where the person lives, or nothing for an unset time."""
    if not time.seconds and not time.nanos:
        return ""
    try:
        return iso_day(time.ToDatetime(tzinfo=UTC))
    except (ValueError, OverflowError):
        return "(out of range)"


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
    """Counts by name in one line, without the zeros."""
    shown = (f"{count} {name.replace('_', ' ')}" for name, count in sorted(counts.items()) if count)
    return ", ".join(shown)


def words(enum: EnumDescriptor) -> list[str]:
    """The values of an enum as people type them: `MEMORY_TYPE_GOAL` is `goal`."""
    return [word_of(enum, value.number) for value in enum.values if value.number != 0]


def word_of(enum: EnumDescriptor, number: int) -> str:
    """How a value of an enum is shown; nothing if it is not set."""
    return word(enum, number).replace("_", "-") if number else ""
