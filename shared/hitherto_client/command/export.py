"""`hitherto export`, and `import --from hitherto`: all that is stored about a user, and back."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from hitherto.v1 import privacy_pb2, privacy_service_pb2
from hitherto_client.command.options import Argument, connect, open_file, size_of
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.command.progress import Bar, if_stopped
from hitherto_client.command.rpc import Command
from hitherto_client.export import (
    EXPORT_SECONDS,
    ExportBroken,
    NoExport,
    Received,
    count_records,
)
from hitherto_client.results import ExportManifest, ImportedUser
from hitherto_client.wire import build

EXPORTED = "hitherto"
"""The value of --from for exports of this product."""
EXPORTED_TITLE = "Hitherto: the file of `hitherto export`"
_LEFT = "what was stored stays; importing the same file again stores what is missing"
_MIB = 2**20
_TABLES = ("table", "records", "there already", "left out")


def _export(options: argparse.Namespace, output: Output) -> int:
    if options.json and options.output is None:
        raise UsageError("--json needs --output FILE: the export itself goes to standard output")
    with connect(options) as client, Bar(output, end_known=False) as bar:

        def show(received: Received) -> None:
            mib = received.total_bytes / _MIB
            bar.count(received.lines, f"{received.lines} rows, {mib:.1f} MiB")

        def write(into: BinaryIO) -> ExportManifest:
            return client.export_user(
                options.user, into, progress=show, timeout=options.timeout or EXPORT_SECONDS
            )

        try:
            manifest = (
                write(sys.stdout.buffer)
                if options.output is None
                else _whole_or_nothing(options.output, write)
            )
        except ExportBroken as error:
            output.error(str(error))
            return FAILED
    if options.json:
        output.document(build(privacy_pb2.ExportManifest, **asdict(manifest)))
        return OK
    held = {table: count for table, count in manifest.counts.items() if count}
    rows = f"{sum(held.values())} rows of {len(held)} tables, {manifest.total_bytes} bytes"
    output.note(f"{rows}, sha256 {manifest.sha256}: complete")
    return OK


def _whole_or_nothing(file: Path, write: Callable[[BinaryIO], ExportManifest]) -> ExportManifest:
    """Write beside the file and put it there once it is complete; only the owner may read it.

    A pipe or a device gets the data as they come: a file in its place would not reach its reader.
    """
    try:
        if file.exists() and not file.is_file():
            with file.open("wb") as there:
                return write(there)
        target = file.resolve()
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "wb") as into:
                manifest = write(into)
            Path(name).replace(target)
        finally:
            with suppress(FileNotFoundError):
                Path(name).unlink()
        return manifest
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None


def restore(options: argparse.Namespace, output: Output) -> int:
    """Import one export for `options.user`; with `--dry-run`, count its records."""
    if len(options.files) != 1:
        raise UsageError(f"--from {EXPORTED} takes one file: a user has one export")
    (name,) = options.files
    if options.dry_run:
        return _count(name, output)
    size = size_of(name)
    if name != "-" and Path(name).is_file():
        # It can be read again. Nothing is stored of an export that is not whole.
        _records(name)
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
    output.result(
        build(privacy_service_pb2.ImportUserResponse, **asdict(made)),
        lambda: _show_restored(output, made),
    )
    return OK


def _records(name: str) -> Counter[str]:
    """The records of a whole export by table."""
    try:
        with open_file(name) as export:
            return count_records(export)
    except NoExport as error:
        raise UsageError(f"{name}, {error}") from None
    except OSError as error:
        raise UsageError(f"{name} cannot be read ({error})") from None


def _count(name: str, output: Output) -> int:
    counts = _records(name)
    if output.as_json:
        output.document({"records": dict(sorted(counts.items()))})
        return OK
    output.table(_TABLES[:2], sorted(counts.items()), numbers=_TABLES[1:])
    output.note("no language model is called; vectors are computed in the background")
    return OK


def _show_restored(output: Output, made: ImportedUser) -> None:
    counts = (made.imported_counts, made.skipped_counts, made.left_out_counts)
    rows = [
        (table, *(count.get(table, 0) for count in counts))
        for table in sorted({table for count in counts for table in count})
    ]
    output.table(_TABLES, rows, numbers=_TABLES[1:])


COMMANDS = (
    Command(
        "export",
        "Export everything that is stored about a user, as JSON lines.",
        Argument("user", "the id of the user", "USER"),
        Argument("--output", "the output file (default: standard output)", "FILE", type=Path),
        run=_export,
    ),
)
