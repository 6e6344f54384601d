"""`hitherto import`: transcripts or memories by the million, in bounded memory."""

from __future__ import annotations

import argparse
from contextlib import closing
from datetime import UTC, tzinfo
from itertools import chain
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hitherto_client import Hitherto
from hitherto_client._sync.connection import stream
from hitherto_client.batches import WINDOW_SECONDS, Progress
from hitherto_client.command.export import EXPORTED, EXPORTED_TITLE, restore
from hitherto_client.command.import_files import (
    ImportedFile,
    ImportPlan,
    left_out,
    prices,
)
from hitherto_client.command.options import Argument, Switch, connect, moment, size_of
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.command.progress import Bar, Waits, if_stopped, tell_if_away
from hitherto_client.command.rpc import Command
from hitherto_client.command.show import Column, short, show_rows
from hitherto_client.days import zone_of
from hitherto_client.importers import FORMATS
from hitherto_client.transcripts import Defaults

_SHOWN_ERRORS = 20
_UNDATED = "says nowhere when it was held: name a day for such conversations with --undated"


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
        ImportedFile(name, size_of(name), defaults, kind, options)
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
        zone = _zone(options, output, client)
        for file in files:
            file.zone = zone
            token = _import(client, file, files, bar, waits, options.timeout) or token
            if file.kind == "transcripts":
                for conversation in file.report.undated:
                    file.refuse(0, f"{short(conversation)} {_UNDATED}")
    document = {"files": [file.as_dict() for file in files], "consistency_token": token}
    output.result(document, lambda: _tell(output, files))
    return FAILED if any(file.refused for file in files) else OK


def _zone(options: argparse.Namespace, output: Output, client: Hitherto | None) -> tzinfo:
    """The zone of times that name none: as typed, else the user's; a dry run asks no service."""
    if options.source is None:
        return UTC
    if options.time_zone:
        try:
            return ZoneInfo(options.time_zone)
        except (ZoneInfoNotFoundError, ValueError):
            raise UsageError(f"there is no time zone {options.time_zone!r}") from None
    if FORMATS[options.source].convert is not None:
        return UTC
    if client is None:
        output.note("times are read in UTC here, and by the import in the user's time zone")
        return UTC
    zone = zone_of(client.connection, options.user)
    output.note(f"times are read in the user's time zone, {zone}; --time-zone names another one")
    return zone


def _import(
    client: Hitherto,
    file: ImportedFile,
    files: list[ImportedFile],
    bar: Bar,
    waits: Waits,
    timeout: float | None,
) -> str:
    """Hand one file over; the token of the last write."""

    def progress(made: Progress) -> None:
        file.accepted, file.turned_away = made.accepted, made.refused
        _show(bar, files)

    with closing(file.records_of_one_kind()) as records:
        first = next(records, None)
        if first is None:
            return ""
        reply = stream(
            client.connection,
            "StreamMemories" if file.kind == "memories" else "StreamTranscripts",
            file.requests(chain((first,), records)),
            progress=progress,
            timeout=timeout or WINDOW_SECONDS,
            away=waits.fail,
        )
    file.known = reply.deduplicated_count if file.kind == "memories" else reply.known_count
    file.note_refused(reply.errors)
    return str(reply.consistency_token)


def _plan(options: argparse.Namespace, defaults: Defaults, output: Output) -> int:
    """Count what would be imported, and what learning from it would cost."""
    plan = ImportPlan(options.price, others_named=options.source == "whatsapp")
    zone = _zone(options, output, None)
    files = [
        ImportedFile(name, size_of(name), defaults, "", options, zone) for name in options.files
    ]
    size, read = _size_of_all(files), 0
    with Bar(output, end_known=size is not None) as bar:
        for file in files:
            for record in file.records():
                problem = record.problem if record.value is None else file.problem(record)
                if record.value is not None and not problem:
                    plan.count(record.value)
                else:
                    file.refuse(record.line, problem)
                    plan.unreadable += 1
                _progress(bar, read + file.read, size, plan.messages, f"{plan.messages} messages")
            read += file.read
            plan.reports.append(file.report)
    if output.as_json:
        output.document(plan.as_dict())
    else:
        for line in plan.lines():
            output.line(line)
        _tell_refused(output, files)
    return OK


def _show(bar: Bar, files: list[ImportedFile]) -> None:
    accepted = sum(file.accepted for file in files)
    refused = sum(file.refused for file in files)
    text = f"{accepted} taken" + (f", {refused} refused" if refused else "")
    read = sum(file.read for file in files)
    _progress(bar, read, _size_of_all(files), accepted + refused, text)


def _size_of_all(files: list[ImportedFile]) -> int | None:
    """In bytes; None if only reading them will tell."""
    sizes = [file.size for file in files if file.size is not None]
    return sum(sizes) if len(sizes) == len(files) else None


def _progress(bar: Bar, read: int, size: int | None, done: int, text: str) -> None:
    """Show which share of all bytes is read, or what is done if their number is unknown."""
    if size is None:
        bar.count(done, text)
    else:
        bar.show(min(read / max(size, 1), 1.0), text)


def _tell(output: Output, files: list[ImportedFile]) -> None:
    show_rows(output, _FILES, files)
    for file in files:
        if not (file.accepted or file.known or file.refused):
            output.note(f"{file.title} holds nothing to import")
    _tell_refused(output, files)
    # Of a file with two kinds of records, both readings leave out the same.
    for told in dict.fromkeys(
        f"{file.title}: {line}" for file in files for line in left_out(file.report)
    ):
        output.note(told)
    if any(file.kind == "transcripts" and file.accepted > file.known for file in files):
        output.note("they are read in the background: see `hitherto jobs --state queued`")


def _tell_refused(output: Output, files: list[ImportedFile]) -> None:
    """Name the first records that are refused, and why."""
    for file in files:
        for line, problem in file.errors[:_SHOWN_ERRORS]:
            unit = "record" if file.options.source else "line"
            place = f", {unit} {line}" if line else ""
            output.error(f"{file.title}{place}: {problem}", prefix="")
        if file.refused > _SHOWN_ERRORS:
            all_of_them = "" if file.options.dry_run else "; --json names up to 1000"
            output.note(f"{file.title}: {file.refused - _SHOWN_ERRORS} more{all_of_them}")
    if any(not (file.kind or file.options.source) and file.refused for file in files):
        output.note(
            f"an export of another product is named with --from: {', '.join(sorted(FORMATS))}"
        )


_FILES = (
    Column("file", "title"),
    Column("kind", lambda file: file.kind or "(empty)"),
    Column("new", lambda file: file.accepted - file.known, number=True),
    Column("known already", "known", number=True),
    Column("refused", "refused", number=True),
)


COMMANDS = (
    Command(
        "import",
        "Import any number of transcripts or memories from JSON lines.",
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
            + "; ".join([*(each.title for each in FORMATS.values()), EXPORTED_TITLE]),
            dest="source",
            choices=sorted({*FORMATS, EXPORTED}),
        ),
        Argument(
            "--me",
            "with --from whatsapp, your name in the chat; with mem0, claude or langgraph, the user "
            "id, the account or the label of a namespace to import, where the files hold more",
            "NAME",
            default="",
        ),
        Argument(
            "--dates",
            "with --from whatsapp, which part of a date comes first (default: as the dates show)",
            choices=("day", "month", "year"),
        ),
        Argument(
            "--undated",
            "with --from, the day of everything that has no date in the export (default: such "
            "conversations are refused), in --time-zone or the user's zone",
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
        Argument("--user", "the user, if a line does not name one", "ID", default=""),
        Argument(
            "--time-zone",
            "IANA time zone, if a transcript has none (default with --from whatsapp: the user's)",
            "ZONE",
            default="",
        ),
        run=_run,
    ),
)
