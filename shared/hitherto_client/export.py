"""What an export of a user must be: whole, unchanged, with the lines that its manifest names."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from hitherto.v1 import privacy_pb2
from hitherto.v1.privacy_service_pb2 import ImportUserRequest

EXPORT_SECONDS = 3_600.0
"""An export takes as long as there is to send."""

_PIECE_BYTES = 256 * 1024
"""Bytes of a piece of an export that is sent back."""

_TABLE = b'{"table":"'

_MOST_LINE_BYTES = 16 * 1024 * 1024
"""Bytes of a line that the services accept."""
_MANIFEST = "manifest"
"""What the last line names in place of a table, if the first one announces it."""
_NAMED = re.compile(rb'\{\s*"table"\s*:\s*"([^"\\]{1,64})"')
_LONGEST_ODD_LINE = 1024 * 1024
_TAIL_BYTES = 128


class ExportBroken(Exception):
    """The received export does not match its manifest: discard it and request it again."""


@dataclass(frozen=True, slots=True)
class Received:
    """The progress of an export."""

    lines: int
    total_bytes: int


class Receiver:
    """What has come so far of an export, by size, digest and the table that each line names."""

    def __init__(self) -> None:
        self.size = 0
        self.counts = Counter[str]()
        self._digest = hashlib.sha256()
        self._head = b""
        """The beginning of the line that has not ended, as much of it as names the table."""

    def progress(self) -> Received:
        """How much has come so far."""
        return Received(self.counts.total(), self.size)

    def take(self, data: bytes) -> None:
        """Count the next piece."""
        self.size += len(data)
        self._digest.update(data)
        *ended, rest = data.split(b"\n")
        for line in ended:
            self.counts[_table_of(self._head + line[:_HEAD_BYTES])] += 1
            self._head = b""
        self._head = (self._head + rest[:_HEAD_BYTES])[:_HEAD_BYTES]

    def check(self, manifest: privacy_pb2.ExportManifest) -> None:
        """Compare everything with the manifest.

        Raises:
            ExportBroken: Something is missing or was changed.
        """
        told = {table: count for table, count in manifest.counts.items() if count}
        if (self.size, self._digest.hexdigest()) != (manifest.total_bytes, manifest.sha256):
            raise ExportBroken(
                f"{self.size} bytes came and {manifest.total_bytes} were sent, or they were "
                "changed on the way: ask for the export again"
            )
        if self._head or dict(self.counts) != told:
            raise ExportBroken("the lines that came are not those that were sent: ask again")


_HEAD_BYTES = 128
"""Of a line, as much as holds the name of its table."""


def _table_of(head: bytes) -> str:
    if not head.startswith(_TABLE):
        raise ExportBroken("a line names no table: ask for the export again")
    return head[len(_TABLE) :].partition(b'"')[0].decode("utf-8", "replace")


def write_whole(into: BinaryIO, data: bytes) -> None:
    """Write all of `data`: a stream without a buffer may take a part of it and say how much."""
    left = memoryview(data)
    while left:
        taken: Any = into.write(left)
        if taken == 0 or (taken is None and isinstance(into, io.RawIOBase)):
            raise BlockingIOError("the stream takes no more of the export now")
        # Many objects with a method `write` tell nothing.
        left = left[len(left) if taken is None else taken :]


class Pieces:
    """An export in the requests of its import; `progress` is told the bytes after every piece.

    Attributes:
        taken: Whether a piece was sent.
        failure: Why it could not be read. gRPC ends the call for it with an error that does not
            say so, or as if the caller had cancelled it.
    """

    def __init__(
        self,
        export: BinaryIO,
        user: str,
        idempotency_key: str,
        progress: Callable[[int], None] | None,
    ) -> None:
        self.taken = False
        self.failure: Exception | None = None
        self._export = export
        self._fields = {"user_id": user, "idempotency_key": idempotency_key}
        self._progress = progress

    def __iter__(self) -> Iterator[ImportUserRequest]:
        """The requests, from where the export stands."""
        try:
            sent = 0
            while (data := self._export.read(_PIECE_BYTES)) or not sent:
                yield ImportUserRequest(**self._fields, data=data)
                # Asked for another one, gRPC has sent this one over a connection.
                self.taken = True
                sent += len(data)
                if self._progress is not None:
                    self._progress(sent)
                if not data:
                    return
        except Exception as error:
            self.failure = error
            raise


class NoExport(ValueError):
    """The file is no export, or not a whole one; the message says where and why."""


def count_records(export: BinaryIO) -> Counter[str]:
    """The records of an export by table, read line by line, and whether it is whole.

    Raises:
        NoExport: It is not, or a line is no record.
    """
    counts = Counter[str]()
    announced = ended = False
    while line := export.readline(_MOST_LINE_BYTES + 1):
        number = counts.total() + 1
        if len(line) > _MOST_LINE_BYTES:
            raise NoExport(f"line {number}, has more than {_MOST_LINE_BYTES // 2**20} MiB")
        if not line.strip():
            continue
        if ended:
            raise NoExport(f"line {number}, follows the manifest, which is the end of an export")
        table = _named(number, line)
        if table == _MANIFEST:
            _compare(number, line, counts)
            ended = True
        else:
            told = b'"manifest"' in line[-_TAIL_BYTES:] and _object(line).get(_MANIFEST)
            announced |= told is True
            counts[table] += 1
    if announced and not ended:
        raise NoExport(
            f"line {counts.total() + 1}, is missing: the export was cut off before its manifest"
        )
    return counts


def _named(number: int, line: bytes) -> str:
    """The table that a line names."""
    if found := _NAMED.match(line.lstrip()):
        return found[1].decode("utf-8", "replace")
    value = _object(line)
    if not isinstance(value.get("table"), str):
        raise NoExport(f"line {number}, is no record of `hitherto export`")
    return str(value["table"])


def _compare(number: int, line: bytes, counts: Counter[str]) -> None:
    row = _object(line).get("row")
    told = row.get("counts") if isinstance(row, dict) else None
    if not isinstance(told, dict) or {table: n for table, n in told.items() if n} != counts:
        raise NoExport(
            f"line {number}, is the manifest of other lines than those before it: the export is "
            "not whole, or was changed"
        )


def _object(line: bytes) -> dict[str, Any]:
    """The object on a line that is not a long record; empty if there is none."""
    try:
        value = json.loads(line) if len(line) <= _LONGEST_ODD_LINE else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}
