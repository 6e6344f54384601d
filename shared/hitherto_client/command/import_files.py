"""A file of an import: what it holds, line by line, and what has become of it."""

from __future__ import annotations

import argparse
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hitherto.v1 import conversation_pb2, item_error_pb2, memory_service_pb2
from hitherto_client.batches import parts
from hitherto_client.command.options import open_file
from hitherto_client.command.output import UsageError
from hitherto_client.importers import ExportReport, ExportUnreadable, read_export
from hitherto_client.records import Record, memory_request, read_records
from hitherto_client.streams import MAX_ERRORS
from hitherto_client.transcripts import Defaults, FileTranscript, from_record

_LONGEST_NAME = 80


@dataclass(slots=True)
class ImportedFile:
    """One file and what has become of it."""

    name: str
    size: int | None
    defaults: Defaults
    kind: str
    """`memories` or `transcripts`; empty until the first line tells."""
    options: argparse.Namespace
    read: int = 0
    accepted: int = 0
    known: int = 0
    bad: int = 0
    """Lines that were not sent."""
    turned_away: int = 0
    """Items that the service refused."""
    errors: list[tuple[int, str]] = field(default_factory=list)
    """Line and problem of the first refused ones."""
    report: ExportReport = field(default_factory=ExportReport)
    """What of an export of another product is not imported."""
    _conversations: dict[int, str] = field(default_factory=dict)
    """In such an export, which has no lines, the conversation of each record that is one."""
    # Where the line of an item is not that of the item before plus one.
    _items: array[int] = field(default_factory=lambda: array("q"))
    _lines: array[int] = field(default_factory=lambda: array("q"))
    _sent: int = 0

    @property
    def refused(self) -> int:
        """Lines and items that were not taken."""
        return self.bad + self.turned_away

    @property
    def title(self) -> str:
        """What people know it by."""
        return "stdin" if self.name == "-" else self.name

    def as_dict(self) -> dict[str, Any]:
        """What has become of it, as JSON."""
        return {
            "file": self.title,
            "kind": self.kind,
            "accepted": self.accepted,
            "deduplicated": self.known,
            "rejected": self.refused,
            "errors": [{"line": line, "problem": problem} for line, problem in self.errors],
        }

    def refuse(self, line: int, problem: str) -> None:
        """Write down why a line is not sent."""
        self.bad += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(self._placed(line, problem))

    def note_refused(self, errors: Iterable[item_error_pb2.ItemError]) -> None:
        """Write down what the service refused, by line."""
        told = [self._placed(self._line_of(error.index), _in_words(error)) for error in errors]
        self.errors = sorted(self.errors + told)[:MAX_ERRORS]

    def records(self) -> Iterator[Record]:
        """What the file holds, whichever product wrote it."""
        options = self.options
        if options.source is None:
            with open_file(self.name) as stream:
                for record in read_records(stream):
                    self.read = record.end
                    yield record
            return
        try:
            zone = ZoneInfo(options.time_zone or "UTC")
        except (ZoneInfoNotFoundError, ValueError):
            raise UsageError(f"there is no time zone {options.time_zone!r}") from None
        report = self.report = ExportReport()
        try:
            for line, value in enumerate(
                read_export(
                    options.source,
                    Path(self.name),
                    report,
                    me=options.me,
                    zone=zone,
                    dates=options.dates,
                    undated=options.undated,
                ),
                start=1,
            ):
                self.read = int(report.share * (self.size or 0))
                yield Record(line, self.read, value | {"user_id": options.user})
        except ExportUnreadable as error:
            raise UsageError(f"{self.name} {error}") from None
        except OSError as error:
            raise UsageError(f"{self.name} cannot be read ({error.strerror or error})") from None
        except BadZipFile as error:
            raise UsageError(f"{self.name} cannot be read ({error})") from None

    def records_of_one_kind(self) -> Generator[Record]:
        """The records that are to be sent; the first line of ours settles the kind."""
        for record in self.records():
            if record.value is None:
                self.refuse(record.line, record.problem)
                continue
            kind = _kind(record.value)
            self.kind = self.kind or kind
            # An export holds both kinds, each for a stream of its own.
            if not self.options.source or kind == self.kind:
                yield record

    def problem(self, record: Record) -> str:
        """Why a record would not be sent; empty if it would."""
        value = record.value or {}
        # An export holds both kinds; the first line of ours settles the kind.
        kind = _kind(value)
        self.kind = kind if self.options.source else self.kind or kind
        try:
            if self.kind == "memories":
                self._memory(record)
            else:
                from_record(value, self.defaults)
        except ValueError as error:
            return str(error)
        return ""

    def memories(self, records: Iterable[Record]) -> Iterator[memory_service_pb2.SaveMemoryRequest]:
        """The memories that its records describe."""
        return self._described(records, self._memory)

    def transcripts(self, records: Iterable[Record]) -> Iterator[conversation_pb2.Transcript]:
        """The transcripts that its records describe."""
        return self._described(records, self._transcripts)

    def _described(
        self, records: Iterable[Record], make: Callable[[Record], Iterable[Any]]
    ) -> Iterator[Any]:
        """What records describe; those that describe nothing are written down."""
        for record in records:
            name = (record.value or {}).get("conversation_id")
            if self.options.source and isinstance(name, str):
                self._conversations[record.line] = name
            try:
                found = make(record)
            except ValueError as error:
                said = str(error).removeprefix(f"{self.name}, line {record.line}: ")
                self.refuse(record.line, said)
                continue
            for item in found:
                self._note(record.line)
                yield item

    def _memory(self, record: Record) -> list[memory_service_pb2.SaveMemoryRequest]:
        value = record.value or {}
        if "messages" in value:
            raise ValueError("is a transcript among memories: put them into files of their own")
        return [memory_request(value, self.defaults.user_id)]

    def _transcripts(self, record: Record) -> list[conversation_pb2.Transcript]:
        """The transcript of a line, in parts if it is too large for one request."""
        whole = from_record(record.value or {}, self.defaults)
        return [part.transcript for part in parts(FileTranscript(whole, self.name, record.line))]

    def _placed(self, line: int, problem: str) -> tuple[int, str]:
        """A problem by its line, or with the name of its conversation."""
        name = self._conversations.get(line)
        return (0, f"{shortened(name)}: {problem}") if name else (line, problem)

    def _note(self, line: int) -> None:
        """Write down that the next item comes from this line."""
        if not self._items or self._line_of(self._sent) != line:
            self._items.append(self._sent)
            self._lines.append(line)
        self._sent += 1

    def _line_of(self, item: int) -> int:
        place = bisect_right(self._items, item) - 1
        return self._lines[place] + item - self._items[place]


def shortened(name: str) -> str:
    """The name of a conversation as a line can hold it: an export may name it by a whole text."""
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def _kind(value: dict[str, Any]) -> str:
    return "transcripts" if "messages" in value else "memories"


def _in_words(error: item_error_pb2.ItemError) -> str:
    if error.field_violations:
        return "; ".join(f"{bad.field}: {bad.description}" for bad in error.field_violations)
    return f"{error.message} ({error.reason})" if error.reason else error.message
