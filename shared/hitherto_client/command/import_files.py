"""The files of an import: what they hold, what learning costs, and what became of it."""

from __future__ import annotations

import argparse
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from hitherto.v1 import item_error_pb2, memory_service_pb2
from hitherto_client.batches import MAX_ERRORS, parts, streamed_memory, streamed_transcript
from hitherto_client.command.options import open_file
from hitherto_client.command.output import UsageError
from hitherto_client.command.show import short
from hitherto_client.importers import ExportReport, ExportUnreadable, read_export
from hitherto_client.records import Record, memory_request, read_records
from hitherto_client.transcripts import Defaults, FileTranscript, from_record


@dataclass(slots=True)
class ImportedFile:
    """One file and what has become of it."""

    name: str
    size: int | None
    defaults: Defaults
    kind: str
    """`memories` or `transcripts`; empty until the first line tells."""
    options: argparse.Namespace
    zone: tzinfo = UTC
    """Of the times in it that name none."""
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
        """Write down what the service refused; the places of these errors are lines."""
        told = [self._placed(error.index, _in_words(error)) for error in errors]
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
        report = self.report = ExportReport()
        try:
            for line, value in enumerate(
                read_export(
                    options.source,
                    Path(self.name),
                    report,
                    me=options.me,
                    zone=self.zone,
                    dates=options.dates,
                    undated=options.undated,
                ),
                start=1,
            ):
                self.read = int(report.share * (self.size or 0))
                yield Record(line, self.read, value | {"user_id": options.user})
        except ExportUnreadable as error:
            raise UsageError(f"{self.name} {error}") from None
        except (OSError, BadZipFile) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"{self.name} cannot be read ({why})") from None

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
                self._saved(value)
            else:
                from_record(value, self.defaults)
        except ValueError as error:
            return str(error)
        return ""

    def requests(self, records: Iterable[Record]) -> Iterator[tuple[int, Any]]:
        """What to send of records, each with its line; those that describe nothing are refused."""
        for record in records:
            value, line = record.value or {}, record.line
            name = value.get("conversation_id")
            if self.options.source and isinstance(name, str):
                self._conversations[line] = name
            try:
                if self.kind == "memories":
                    found: list[Any] = [self._saved(value)]
                else:
                    # In parts if it is too large for one request.
                    whole = FileTranscript(from_record(value, self.defaults), self.name, line)
                    found = [streamed_transcript(part.transcript) for part in parts(whole)]
            except ValueError as error:
                self.refuse(line, str(error).removeprefix(f"{self.name}, line {line}: "))
                continue
            yield from ((line, request) for request in found)

    def _saved(self, value: dict[str, Any]) -> memory_service_pb2.StreamMemoriesRequest:
        if "messages" in value:
            raise ValueError("is a transcript among memories: put them into files of their own")
        return streamed_memory(memory_request(value, self.defaults.user_id))

    def _placed(self, line: int, problem: str) -> tuple[int, str]:
        """A problem by its line, or with the name of its conversation."""
        name = self._conversations.get(line)
        return (0, f"{short(name)}: {problem}") if name else (line, problem)


def _kind(value: dict[str, Any]) -> str:
    return "transcripts" if "messages" in value else "memories"


def _in_words(error: item_error_pb2.ItemError) -> str:
    if error.field_violations:
        return "; ".join(f"{bad.field}: {bad.description}" for bad in error.field_violations)
    return f"{error.message} ({error.reason})" if error.reason else error.message


_BYTES_OF_A_TOKEN = 4
"""Of English text; other scripts have two to three bytes a character and about as many a token."""
_PROMPT_TOKENS = 2_200
"""What a prompt holds besides the conversation: instructions, known memories, the profile."""
_REPLY_TOKENS = 350
_MESSAGES_OF_A_PROMPT = 200
_SHOWN_NAMES = 20


def left_out(report: ExportReport) -> list[str]:
    """What of an export is not imported, for people."""
    found = []
    if report.notices:
        found.append(
            f"notices, pictures, and what others wrote alone, left out: {report.notices:,} lines"
        )
    if report.empty:
        found.append(f"{report.empty:,} records hold nothing that is imported: left out")
    if report.of_others:
        found.append(f"{report.of_others:,} records are of other people: left out")
    if report.timeless:
        found.append(
            f"{report.timeless:,} memories have no time and count as known from the import on;"
            " --undated names another day"
        )
    return found


def prices(text: str) -> tuple[float, float]:
    """US dollars per million tokens of input and of output, as `0.15,0.60`."""
    try:
        given, written = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no pair of prices such as 0.15,0.60"
        ) from None
    if given < 0 or written < 0:
        raise argparse.ArgumentTypeError("prices are not negative")
    return given, written


@dataclass(slots=True)
class ImportPlan:
    """The contents of an import, counted.

    Attributes:
        price: US dollars per million tokens of input and of output.
        others_named: Whether messages with a name are other people's, as in a chat of WhatsApp.
    """

    price: tuple[float, float]
    others_named: bool = False
    conversations: int = 0
    messages: int = 0
    by_user: int = 0
    memories: int = 0
    text_bytes: int = 0
    prompts: int = 0
    unreadable: int = 0
    """Lines that hold no JSON object, or one that is no transcript or memory."""
    undated: int = 0
    """Messages without a time, which count as said at the import."""
    reports: list[ExportReport] = field(default_factory=list)
    times: list[str] = field(default_factory=list)
    """The first and the last time, once there is one."""

    def count(self, record: dict[str, Any]) -> None:
        """Count one record."""
        messages = record.get("messages")
        if not isinstance(messages, list):
            self.memories += 1
            self.text_bytes += len(str(record.get("content", "")).encode("utf-8", "replace"))
            self._note(record.get("valid_from"))
            return
        self.conversations += 1
        self.messages += len(messages)
        self.prompts += -(-len(messages) // _MESSAGES_OF_A_PROMPT)
        for message in messages:
            if isinstance(message, dict):
                of_user = str(message.get("role", "")).lower().endswith("user")
                self.by_user += of_user and not (self.others_named and message.get("name"))
                text = str(message.get("content", ""))
                self.text_bytes += len(text.encode("utf-8", "replace"))
                self.undated += not message.get("created_at")
                self._note(message.get("created_at"))

    def _note(self, time: object) -> None:
        if isinstance(time, str) and time:
            self.times = [min([time, *self.times[:1]]), max([time, *self.times[1:]])]

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens of input and of output that learning takes, roughly."""
        if not self.prompts:
            return 0, 0
        read = self.text_bytes // _BYTES_OF_A_TOKEN + _PROMPT_TOKENS * self.prompts
        return read, _REPLY_TOKENS * self.prompts

    @property
    def dollars(self) -> float:
        """What that costs."""
        return sum(n * price / 1e6 for n, price in zip(self.tokens, self.price, strict=True))

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON."""
        given, written = self.tokens
        return {
            "conversations": self.conversations,
            "messages": self.messages,
            "messages_of_the_user": self.by_user,
            "memories": self.memories,
            "first": self.times[0] if self.times else "",
            "last": self.times[1] if self.times else "",
            "unreadable_lines": self.unreadable,
            "undated_messages": self.undated,
            "undated_memories": sum(each.timeless for each in self.reports),
            "undated_conversations": [name for each in self.reports for name in each.undated],
            "notices": sum(each.notices for each in self.reports),
            "empty_records": sum(each.empty for each in self.reports),
            "records_of_others": sum(each.of_others for each in self.reports),
            "text_bytes": self.text_bytes,
            "estimated_input_tokens": given,
            "estimated_output_tokens": written,
            "estimated_usd": round(self.dollars, 4),
        }

    def lines(self) -> list[str]:
        """The plan for people."""
        given, written = self.tokens
        parts = []
        if self.conversations or not self.memories:
            parts.append(
                f"{self.conversations:,} conversations with {self.messages:,} messages, of which"
                f" the user wrote {self.by_user:,}"
            )
        if self.memories:
            parts.append(f"{self.memories:,} memories")
        found = ["; ".join(parts)]
        if self.times:
            found.append(f"from {self.times[0][:10]} to {self.times[1][:10]}")
        if self.unreadable:
            found.append(f"would be refused: {self.unreadable:,}")
        if self.undated:
            found.append(
                f"{self.undated:,} messages have no `created_at` and would count as said at the"
                " import"
            )
        for report in self.reports:
            found += [
                f"{name} says nowhere when it was held and would be refused: name a day for such"
                " conversations with --undated"
                for name in report.undated[:_SHOWN_NAMES]
            ]
            if (more := len(report.undated) - _SHOWN_NAMES) > 0:
                found.append(f"so would {more:,} more; --json names all")
            found += left_out(report)
        if self.prompts:
            found.append(
                f"learning takes about {given:,} tokens of input and {written:,} of output: about"
                f" {self.dollars:,.2f} US dollars at {self.price[0]:g} and {self.price[1]:g} per"
                " million. Without a language model it costs nothing, and rules learn from some"
                " sentences in English and Vietnamese only."
            )
        found.append("nothing was sent")
        return found
