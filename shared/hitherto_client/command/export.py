"""`hitherto export`: everything that is stored about a user, as JSON lines."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from hitherto.v1 import privacy_pb2
from hitherto_client.command.exits import FAILED, OK, UsageError
from hitherto_client.command.options import Argument, connect
from hitherto_client.command.output import Output
from hitherto_client.command.progress import Bar
from hitherto_client.command.rpc import Command
from hitherto_client.export import EXPORT_SECONDS, ExportBroken, Received
from hitherto_client.results import ExportManifest
from hitherto_client.wire import build

_MIB = 1024 * 1024


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
    if file.exists() and not file.is_file():
        try:
            with file.open("wb") as there:
                return write(there)
        except OSError as error:
            raise UsageError(f"cannot write {file}: {error.strerror}") from None
    target = file.resolve()
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as into:
            manifest = write(into)
        draft.replace(target)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    return manifest


COMMANDS = (
    Command(
        "export",
        "Export everything that is stored about a user, as JSON lines.",
        None,
        Argument("user", metavar="USER"),
        Argument("--output", "the output file (default: standard output)", "FILE", type=Path),
        run=_export,
    ),
)
