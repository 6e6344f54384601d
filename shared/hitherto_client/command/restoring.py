"""`hitherto import --from hitherto`: an export of ours, stored again as it was written."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass

from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_client.command.exits import OK, UsageError
from hitherto_client.command.options import connect, open_file, size_of
from hitherto_client.command.output import Output
from hitherto_client.command.progress import Bar, if_stopped
from hitherto_client.command.show import Column, show_rows
from hitherto_client.export import EXPORT_SECONDS
from hitherto_client.results.privacy import ImportedUser
from hitherto_client.wire import build

EXPORTED = "hitherto"
"""The value of --from for exports of this product."""
_LEFT = "what was stored stays; importing the same file again stores what is missing"
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class TableCounts:
    """What became of the records of a table."""

    table: str
    imported: int
    skipped: int
    left_out: int


def restore(options: argparse.Namespace, output: Output) -> int:
    """Import one export for `options.user`; with `--dry-run`, count its records."""
    if len(options.files) != 1:
        raise UsageError(f"--from {EXPORTED} takes one file: a user has one export")
    (name,) = options.files
    if options.dry_run:
        return _count(name, output)
    size = size_of(name)
    with (
        open_file(name) as export,
        connect(options) as client,
        Bar(output, end_known=bool(size)) as bar,
    ):

        def show(sent: int) -> None:
            mib = f"{sent / _MIB:.1f} MiB"
            if size:
                bar.show(min(sent / size, 1.0), mib)
            else:
                bar.count(sent, mib)

        with if_stopped(output, lambda: _LEFT):
            made = client.import_user(
                options.user, export, progress=show, timeout=options.timeout or EXPORT_SECONDS
            )
    output.result(build(pb.ImportUserResponse, **asdict(made)), lambda: _show(output, made))
    return OK


def _count(name: str, output: Output) -> int:
    counts = Counter[str]()
    try:
        with open_file(name) as export:
            for line in export:
                counts[_table(name, counts.total() + 1, line)] += 1
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error})") from None
    if output.as_json:
        output.document({"records": dict(sorted(counts.items()))})
        return OK
    rows = [TableCounts(table, count, 0, 0) for table, count in sorted(counts.items())]
    show_rows(output, _COLUMNS[:2], rows)
    output.note("no language model is called; vectors are computed in the background")
    return OK


def _table(name: str, number: int, line: bytes) -> str:
    """The table of a record, on the line with this number of the file with this name."""
    try:
        return str(json.loads(line)["table"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(f"{name}, line {number}, is no record of `hitherto export`") from None


def _show(output: Output, made: ImportedUser) -> None:
    counts = (made.imported_counts, made.skipped_counts, made.left_out_counts)
    rows = [
        TableCounts(table, *(count.get(table, 0) for count in counts))
        for table in sorted({table for count in counts for table in count})
    ]
    show_rows(output, _COLUMNS, rows)


_COLUMNS = (
    Column("table", "table"),
    Column("records", "imported", number=True),
    Column("there already", "skipped", number=True),
    Column("left out", "left_out", number=True),
)
