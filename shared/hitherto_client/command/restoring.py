"""`hitherto import --from hitherto`: an export of ours, stored again as it was written."""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, cast

from hitherto.v1 import privacy_service_pb2 as pb
from hitherto_client.command.exits import OK, UsageError
from hitherto_client.command.options import connect
from hitherto_client.command.output import Output
from hitherto_client.command.progress import Bar
from hitherto_client.command.show import Column, show_rows
from hitherto_client.errors import HithertoCallError
from hitherto_client.export import EXPORT_SECONDS
from hitherto_client.wire import build

EXPORTED = "hitherto"
"""The value of --from for exports of this product."""
_GZIP = ".gz"
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
    size = _size(name)
    with (
        _open(name) as export,
        connect(options) as client,
        Bar(output, end_known=bool(size)) as bar,
    ):

        def show(sent: int) -> None:
            mib = f"{sent / _MIB:.1f} MiB"
            if size:
                bar.show(min(sent / size, 1.0), mib)
            else:
                bar.count(sent, mib)

        try:
            made = client.import_user(
                options.user, export, progress=show, timeout=options.timeout or EXPORT_SECONDS
            )
        except (KeyboardInterrupt, HithertoCallError):
            output.note(
                "what was stored stays; importing the same file again stores what is missing"
            )
            raise
    if output.as_json:
        output.document(build(pb.ImportUserResponse, **asdict(made)))
        return OK
    _show(output, made.imported_counts, made.skipped_counts, made.left_out_counts)
    return OK


def _count(name: str, output: Output) -> int:
    counts = Counter[str]()
    try:
        with _open(name) as export:
            for line in export:
                counts[str(json.loads(line)["table"])] += 1
    except (ValueError, TypeError, KeyError, RecursionError):
        number = counts.total() + 1
        raise UsageError(f"{name}, line {number}, is no record of `hitherto export`") from None
    except (OSError, EOFError) as error:
        raise UsageError(f"{name} cannot be read ({error})") from None
    if output.as_json:
        output.document({"records": dict(sorted(counts.items()))})
        return OK
    rows = [TableCounts(table, count, 0, 0) for table, count in sorted(counts.items())]
    show_rows(output, _COLUMNS[:2], rows)
    output.note("no language model is called; vectors are computed in the background")
    return OK


def _show(
    output: Output,
    imported: Mapping[str, int],
    skipped: Mapping[str, int],
    left_out: Mapping[str, int],
) -> None:
    rows = [
        TableCounts(table, imported.get(table, 0), skipped.get(table, 0), left_out.get(table, 0))
        for table in sorted({*imported, *skipped, *left_out})
    ]
    show_rows(output, _COLUMNS, rows)


def _size(name: str) -> int | None:
    if name == "-" or name.endswith(_GZIP):
        return None
    try:
        return os.stat(name).st_size
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error.strerror})") from None


def _open(name: str) -> AbstractContextManager[BinaryIO]:
    if name == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        if name.endswith(_GZIP):
            return cast(BinaryIO, gzip.open(name, "rb"))
        return Path(name).open("rb")
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error.strerror})") from None


_COLUMNS = (
    Column("table", "table"),
    Column("records", "imported", number=True),
    Column("there already", "skipped", number=True),
    Column("left out", "left_out", number=True),
)
