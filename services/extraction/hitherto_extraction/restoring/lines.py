"""Reads records from the pieces of an export, line by line, in a thread.

A piece is read in parts of bounded size, so that millions of empty or left-out lines cost the event
loop no more than a few records. Memory holds one piece, one line and the records of one part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from hitherto_extraction.restoring.catalogue import Rules
from hitherto_extraction.restoring.columns import check_row
from hitherto_extraction.restoring.tables import LEFT_OUT, OWNERS
from hitherto_extraction.storage.exports import MANIFEST
from hitherto_shared import long_json
from hitherto_shared.errors import InvalidRequest, invalid
from hitherto_shared.offloading import in_thread_if_long
from hitherto_shared.validation import Checks

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Above the largest row: a document of 4 MiB, with its escapes."""
PART_BYTES = 32 * 1024
"""Bytes of a piece that are read between two turns of the event loop, if no line is longer."""
_WORK_OF_A_BYTE = 4
"""A line may be as short as 25 bytes, and is parsed and checked by itself."""
_KEYS = {"table", "row", "lost", "manifest"}
_BLANK = re.compile(rb"\s+")


@dataclass(frozen=True, slots=True)
class ExportedRecord:
    """A record of an export: its place in it, from 1, and its checked columns.

    `row` is None if the table is left out, or part of the record is `lost`.
    """

    number: int
    table: str
    row: dict[str, Any] | None
    owner: tuple[Any, Any]
    raw: dict[str, Any]
    size: int
    lost: bool

    @property
    def lost_with(self) -> str:
        """What names this record, if it is lost, for those that belong to it."""
        if self.table == "memories":
            return str(self.raw.get("memory_id"))
        return self.table if self.table == "profiles" else ""

    @property
    def belongs_to(self) -> str:
        """The `lost_with` of the record that this one belongs to."""
        if self.table == "profile_versions":
            return "profiles"
        return str(self.raw.get("memory_id") or self.table)

    def refused(self, why: str) -> InvalidRequest:
        """The refusal of this record."""
        return invalid(f"records[{self.number}]", why)


async def read_records(
    pieces: AsyncIterator[bytes], rules: Rules
) -> AsyncGenerator[ExportedRecord]:
    """The records of an export, in order, without its manifest.

    Raises:
        InvalidRequest: A line is no record, or a column has a value that it may not have, or the
            export was cut off.
    """
    export = _Export(rules)
    async for piece in pieces:
        async for record in export.records(piece):
            yield record
    async for record in export.records(export.rest()):
        yield record
    export.check_end()


class _Export:
    """What was read of an export; if its first line says so, a manifest ends it."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lines = 0
        self._begun = bytearray()
        self._counts = Counter[str]()
        self._announced = self._ended = False

    async def records(self, piece: bytes) -> AsyncGenerator[ExportedRecord]:
        """The records that end in the next piece."""
        parts = self._parts(piece)
        work = _WORK_OF_A_BYTE * (min(len(piece), PART_BYTES) + len(self._begun))
        while (part := await in_thread_if_long(work, next, parts, None)) is not None:
            for record in part:
                yield record

    def rest(self) -> bytes:
        """What ends the last line, if it has no end."""
        return b"\n" if self._begun else b""

    def check_end(self) -> None:
        """Refuse an export without the end that it announced."""
        if self._announced and not self._ended:
            raise invalid(
                f"records[{self._lines + 1}]",
                "is missing: the export was cut off before its manifest. What came is stored; "
                "import the whole file again",
            )

    def _parts(self, piece: bytes) -> Iterator[list[ExportedRecord]]:
        """The records that end in a piece, in parts."""
        part: list[ExportedRecord] = []
        size = 0
        try:
            for line in self._ended_lines(piece):
                if line.strip():
                    record, announces = _read(self._lines, line, self._rules)
                    self._announced |= announces
                    if self._belongs(record):
                        part.append(record)
                size += len(line)
                if size >= PART_BYTES:
                    yield part
                    part, size = [], 0
        except InvalidRequest:
            # What is wrong with the records before it is told first.
            yield part
            raise
        yield part

    def _ended_lines(self, piece: bytes) -> Iterator[bytes]:
        """The lines that end in a piece."""
        at = 0
        while at < len(piece):
            if not self._begun and (blank := _BLANK.match(piece, at)):
                # Empty lines are passed at once: an export may have millions of them.
                begins = piece.rfind(b"\n", at, blank.end()) + 1 or at
                self._lines += piece.count(b"\n", at, begins)
                at = begins
            end = piece.find(b"\n", at)
            found = piece[at:end] if end >= 0 else piece[at:]
            if len(self._begun) + len(found) > MAX_LINE_BYTES:
                raise invalid(
                    f"records[{self._lines + 1}]",
                    f"must have at most {MAX_LINE_BYTES} bytes on its line",
                )
            self._begun += found
            if end < 0:
                return
            at = end + 1
            self._lines += 1
            line = bytes(self._begun)
            self._begun.clear()
            yield line

    def _belongs(self, record: ExportedRecord) -> bool:
        """Whether the line is a record, and not the manifest, which must fit and be the last."""
        if self._ended:
            raise record.refused("follows the manifest, which is the end of an export")
        if record.table != MANIFEST:
            self._counts[record.table] += 1
            return True
        self._ended = True
        told = record.raw.get("counts")
        if (
            not isinstance(told, dict)
            or not all(type(count) is int for count in told.values())
            or {table: count for table, count in told.items() if count} != self._counts
        ):
            raise record.refused(
                "is the manifest of other records than came before it: the export is not whole, or "
                "was changed"
            )
        return False


def _read(number: int, line: bytes, rules: Rules) -> tuple[ExportedRecord, bool]:
    """The record on a line, and whether it announces a manifest."""
    at = f"records[{number}]"
    try:
        value = long_json.loads(line, parse_constant=_no_number)
    except long_json.TooManyValues as error:
        raise invalid(at, f"has {error}") from None
    except (ValueError, RecursionError):
        raise invalid(
            at, "must be a JSON object on one line; is the file a complete export?"
        ) from None
    if not isinstance(value, dict) or not isinstance(value.get("row"), dict):
        raise invalid(at, 'must be an object such as {"table": "memories", "row": {...}}')
    checks = Checks()
    for unknown in value.keys() - _KEYS:
        checks.add(f"{at}.{unknown[:64]!r}", "is not known to this version of the service")
    table, raw = value.get("table"), value["row"]
    lost, announces = value.get("lost", False), value.get("manifest", False)
    for name, flag in (("lost", lost), ("manifest", announces)):
        if not isinstance(flag, bool):
            checks.add(f"{at}.{name}", "must be true or false")
    row = None
    if not isinstance(table, str) or table not in {*rules, *LEFT_OUT, MANIFEST}:
        checks.add(f"{at}.table", "must be a table that this version of the service exports")
    elif table in rules:
        for owner in sorted(OWNERS):
            if not isinstance(raw.get(owner), str):
                checks.add(f"{at}.row.{owner}", "must be the text that the export has")
        known = rules[table]
        if not lost:
            row = check_row(checks, f"{at}.row", raw, known.columns, known.ignored)
            if known.also is not None:
                known.also(checks, f"{at}.row", row)
    checks.done()
    owners = (raw.get("tenant_id"), raw.get("user_id"))
    record = ExportedRecord(number, str(table), row, owners, raw, len(line), bool(lost))
    return record, bool(announces)


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")
