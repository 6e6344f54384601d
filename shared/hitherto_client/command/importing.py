"""`hitherto import`: transcripts or memories by the million, in bounded memory."""

from __future__ import annotations

import argparse
from array import array
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hitherto.v1 import (
    conversation_pb2,
    extraction_service_pb2,
    item_error_pb2,
    memory_service_pb2,
)
from hitherto_client import Hitherto
from hitherto_client._sync.imports import stream
from hitherto_client.batches import parts
from hitherto_client.command.cost import ImportPlan, left_out, prices
from hitherto_client.command.export import EXPORTED, restore
from hitherto_client.command.options import Argument, Switch, connect, moment, open_file, size_of
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.command.progress import Bar, if_stopped
from hitherto_client.command.rpc import Command
from hitherto_client.command.show import Column, show_rows
from hitherto_client.command.waits import Waits, tell_if_away
from hitherto_client.importers import FORMATS, ExportReport, ExportUnreadable, read_export
from hitherto_client.records import Record, memory_request, read_records
from hitherto_client.streams import (
    MAX_ERRORS,
    WINDOW_SECONDS,
    Progress,
    memory_requests,
    transcript_requests,
)
from hitherto_client.transcripts import Defaults, FileTranscript, from_record

_SHOWN_ERRORS = 20
_UNDATED = "says nowhere when it was held: name a day for such conversations with --undated"


@dataclass(slots=True)
class _File:
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
    conversations: dict[int, str] = field(default_factory=dict)
    """In such an export, which has no lines, the conversation of each record that is one."""
    # Where the line of an item is not that of the item before plus one.
    _items: array[int] = field(default_factory=lambda: array("q"))
    _lines: array[int] = field(default_factory=lambda: array("q"))
    _sent: int = 0

    @property
    def refused(self) -> int:
        return self.bad + self.turned_away

    def refuse(self, line: int, problem: str) -> None:
        self.bad += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(self.placed(line, problem))

    def placed(self, line: int, problem: str) -> tuple[int, str]:
        """A problem by its line, or with the name of its conversation."""
        name = self.conversations.get(line)
        return (0, f"{name}: {problem}") if name else (line, problem)

    def note(self, line: int) -> None:
        """Write down that the next item comes from this line."""
        if not self._items or self.line_of(self._sent) != line:
            self._items.append(self._sent)
            self._lines.append(line)
        self._sent += 1

    def line_of(self, item: int) -> int:
        place = bisect_right(self._items, item) - 1
        return self._lines[place] + item - self._items[place]


def _run(options: argparse.Namespace, output: Output) -> int:
    defaults = Defaults(user_id=options.user, time_zone=options.time_zone)
    if options.source is not None and not options.user:
        raise UsageError(f"--from {options.source} needs --user: whose export is it?")
    if options.source == EXPORTED:
        return restore(options, output)
    if options.source is not None and "-" in options.files:
        raise UsageError(f"--from {options.source} reads files and folders, not standard input")
    if options.dry_run:
        return _plan(options, defaults, output)
    files = [
        _File(name, size_of(name), defaults, kind, options)
        for name in options.files
        # One stream of the services takes transcripts or memories, not both.
        for kind in (FORMATS[options.source].kinds if options.source else ("",))
    ]
    token = ""

    def left() -> str:
        taken = sum(file.accepted for file in files)
        # The window that was cut off may be stored in part, without an answer.
        return (
            f"{taken} items were taken and stay, and so may some of those just sent; importing the "
            "same files again does no harm"
        )

    with (
        connect(options) as client,
        Bar(output, end_known=_size_of_all(files) is not None) as bar,
        if_stopped(output, left),
    ):
        tell_if_away(client, output)
        waits = Waits(client, output)
        for file in files:
            token = _import(client, file, files, bar, waits, options.timeout) or token
            if file.kind == "transcripts":
                for conversation in file.report.undated:
                    file.refuse(0, f"{conversation} {_UNDATED}")
    document = {"files": [_as_dict(file) for file in files], "consistency_token": token}
    output.result(document, lambda: _tell(output, files))
    return FAILED if any(file.refused for file in files) else OK


def _import(
    client: Hitherto,
    file: _File,
    files: list[_File],
    bar: Bar,
    waits: Waits,
    timeout: float | None,
) -> str:
    """Hand one file over; the token of the last write."""

    def progress(made: Progress) -> None:
        file.accepted, file.turned_away = made.accepted, made.refused
        _show(bar, files)

    with closing(_of_one_kind(file)) as records:
        first = next(records, None)
        if first is None:
            return ""
        _show(bar, files)
        every, connection = chain((first,), records), client.connection
        how: tuple[Any, Iterator[Any], Any] = (
            (
                connection.memories.StreamMemories,
                memory_requests(_items(file, every, _memory)),
                memory_service_pb2.StreamMemoriesResponse(),
            )
            if file.kind == "memories"
            else (
                connection.extraction.StreamTranscripts,
                transcript_requests(_items(file, every, _transcripts)),
                extraction_service_pb2.StreamTranscriptsResponse(),
            )
        )
        seconds = timeout or WINDOW_SECONDS
        reply = stream(connection, *how, progress=progress, timeout=seconds, away=waits.fail)
    file.known = reply.deduplicated_count if file.kind == "memories" else reply.known_count
    # What the service refused, by line.
    told = [file.placed(file.line_of(error.index), _in_words(error)) for error in reply.errors]
    file.errors = sorted(file.errors + told)[:MAX_ERRORS]
    return str(reply.consistency_token)


def _of_one_kind(file: _File) -> Generator[Record]:
    """The records of a file that are to be sent; the first line of ours settles the kind."""
    for record in _records(file):
        if record.value is None:
            file.refuse(record.line, record.problem)
            continue
        kind = "transcripts" if "messages" in record.value else "memories"
        file.kind = file.kind or kind
        # An export holds both kinds, each for a stream of its own.
        if not file.options.source or kind == file.kind:
            yield record


def _records(file: _File) -> Iterator[Record]:
    """What a file holds, whichever product wrote it."""
    options = file.options
    if options.source is None:
        with open_file(file.name) as stream:
            for record in read_records(stream):
                file.read = record.end
                yield record
        return
    try:
        zone = ZoneInfo(options.time_zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        raise UsageError(f"there is no time zone {options.time_zone!r}") from None
    report = file.report = ExportReport()
    try:
        for line, value in enumerate(
            read_export(
                options.source,
                Path(file.name),
                report,
                me=options.me,
                zone=zone,
                dates=options.dates,
                undated=options.undated,
            ),
            start=1,
        ):
            file.read = int(report.share * (file.size or 0))
            yield Record(line, file.read, value | {"user_id": options.user})
    except ExportUnreadable as error:
        raise UsageError(f"{file.name} {error}") from None
    except OSError as error:
        raise UsageError(f"{file.name} cannot be read ({error.strerror or error})") from None
    except BadZipFile as error:
        raise UsageError(f"{file.name} cannot be read ({error})") from None


def _plan(options: argparse.Namespace, defaults: Defaults, output: Output) -> int:
    """Count what would be imported, and what learning from it would cost."""
    plan = ImportPlan(options.price)
    files = [_File(name, size_of(name), defaults, "", options) for name in options.files]
    size, read = _size_of_all(files), 0
    with Bar(output, end_known=size is not None) as bar:
        for file in files:
            for record in _records(file):
                if record.value is not None and not _problem(file, record):
                    plan.count(record.value)
                else:
                    plan.unreadable += 1
                _progress(bar, read + file.read, size, plan.messages, f"{plan.messages} messages")
            read += file.read
            plan.leave_out(file.report)
    if output.as_json:
        output.document(plan.as_dict())
    else:
        for line in plan.lines():
            output.line(line)
    return OK


def _problem(file: _File, record: Record) -> str:
    """Why a record would not be sent; empty if it would."""
    value = record.value or {}
    # An export holds both kinds; the first line of ours settles the kind.
    kind = "transcripts" if "messages" in value else "memories"
    file.kind = kind if file.options.source else file.kind or kind
    try:
        if file.kind == "memories":
            _memory(file, record)
        else:
            from_record(value, file.defaults)
    except ValueError as error:
        return str(error)
    return ""


def _items(
    file: _File, records: Iterable[Record], make: Callable[[_File, Record], Iterable[Any]]
) -> Iterator[Any]:
    """What the records of a file describe; those that describe nothing are written down."""
    for record in records:
        name = (record.value or {}).get("conversation_id")
        if file.options.source and isinstance(name, str):
            file.conversations[record.line] = name
        try:
            found = make(file, record)
        except ValueError as error:
            file.refuse(record.line, str(error).removeprefix(f"{file.name}, line {record.line}: "))
            continue
        for item in found:
            file.note(record.line)
            yield item


def _memory(file: _File, record: Record) -> list[memory_service_pb2.SaveMemoryRequest]:
    value = record.value or {}
    if "messages" in value:
        raise ValueError("is a transcript among memories: put them into files of their own")
    return [memory_request(value, file.defaults.user_id)]


def _transcripts(file: _File, record: Record) -> list[conversation_pb2.Transcript]:
    """The transcript of a line, in parts if it is too large for one request."""
    whole = from_record(record.value or {}, file.defaults)
    return [part.transcript for part in parts(FileTranscript(whole, file.name, record.line))]


def _in_words(error: item_error_pb2.ItemError) -> str:
    if error.field_violations:
        return "; ".join(f"{bad.field}: {bad.description}" for bad in error.field_violations)
    return f"{error.message} ({error.reason})" if error.reason else error.message


def _show(bar: Bar, files: list[_File]) -> None:
    accepted = sum(file.accepted for file in files)
    refused = sum(file.refused for file in files)
    text = f"{accepted} taken" + (f", {refused} refused" if refused else "")
    read = sum(file.read for file in files)
    _progress(bar, read, _size_of_all(files), accepted + refused, text)


def _size_of_all(files: list[_File]) -> int | None:
    """In bytes; None if only reading them will tell."""
    sizes = [file.size for file in files if file.size is not None]
    return sum(sizes) if len(sizes) == len(files) else None


def _progress(bar: Bar, read: int, size: int | None, done: int, text: str) -> None:
    """Show which share of all bytes is read, or what is done if their number is unknown."""
    if size is None:
        bar.count(done, text)
    else:
        bar.show(min(read / max(size, 1), 1.0), text)


def _tell(output: Output, files: list[_File]) -> None:
    show_rows(output, _FILES, files)
    for file in files:
        if not (file.accepted or file.known or file.refused):
            output.note(f"{_name(file)} holds nothing to import")
        for line, problem in file.errors[:_SHOWN_ERRORS]:
            unit = "record" if file.options.source else "line"
            place = f", {unit} {line}" if line else ""
            output.error(f"{_name(file)}{place}: {problem}", prefix="")
        if file.refused > _SHOWN_ERRORS:
            output.note(
                f"{file.refused - _SHOWN_ERRORS} more were refused; --json names up to 1000"
            )
    if any(not (file.kind or file.options.source) and file.refused for file in files):
        products = ", ".join(sorted({*FORMATS} - {EXPORTED}))
        output.note(f"an export of another product is named with --from: {products}")
    # Of a file with two kinds of records, both readings leave out the same.
    for told in dict.fromkeys(
        f"{_name(file)}: {line}" for file in files for line in left_out(file.report)
    ):
        output.note(told)
    if any(file.kind == "transcripts" and file.accepted for file in files):
        output.note("they are read in the background: see `hitherto jobs --state queued`")


def _name(file: _File) -> str:
    return "stdin" if file.name == "-" else file.name


_FILES = (
    Column("file", _name),
    Column("kind", lambda file: file.kind or "(empty)"),
    Column("taken", "accepted", number=True),
    Column("known already", "known", number=True),
    Column("refused", "refused", number=True),
)


def _as_dict(file: _File) -> dict[str, Any]:
    return {
        "file": _name(file),
        "kind": file.kind,
        "accepted": file.accepted,
        "deduplicated": file.known,
        "rejected": file.refused,
        "errors": [{"line": line, "problem": problem} for line, problem in file.errors],
    }


COMMANDS = (
    Command(
        "import",
        "Import any number of transcripts or memories from JSON lines.",
        None,
        Argument(
            "files",
            "JSON lines, each a transcript (with `messages`) or a memory (with `content`); - "
            "reads standard input; with --from, an export: a zip archive, a folder or a file",
            "FILE",
            nargs="+",
        ),
        Argument(
            "--from",
            "the product that wrote the files: "
            + "; ".join(each.title for each in FORMATS.values()),
            dest="source",
            choices=sorted(FORMATS),
        ),
        Argument(
            "--me",
            "with --from whatsapp, your name in the chat; with mem0, claude or langgraph, the user "
            "id, the account or the label of a namespace to import, where the files hold more",
            default="",
        ),
        Argument(
            "--dates",
            "with --from whatsapp, which part of a date comes first (default: what they show)",
            choices=("day", "month", "year"),
        ),
        Argument(
            "--undated",
            "with --from, when that was said or known of which the export does not say when "
            "(default: such conversations are refused); a day is one of --time-zone or of the user",
            "DAY",
            type=moment,
        ),
        Switch("--dry-run", "only count, and estimate the cost of learning; calls no service"),
        Argument(
            "--price",
            "with --dry-run, US dollars per million tokens (default: 0.15,0.60)",
            "IN,OUT",
            type=prices,
            default=prices("0.15,0.60"),
        ),
        Argument("--user", "the user, if a line does not name one", default=""),
        Argument("--time-zone", "IANA time zone, if a transcript has none", "ZONE", default=""),
        run=_run,
    ),
)
