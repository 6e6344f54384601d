"""Reads records from the pieces of an export, line by line, in a thread.

A piece is read in parts of bounded size whatever its lines hold, so that a piece of millions of
empty or left-out lines costs the event loop no more than one of a few records. Memory holds one
piece, one line and the records of one part.

The first line of an export announces a manifest, which is the last line (`EndOfExport`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
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
_BLANK = re.compile(rb"\s*")


@dataclass(frozen=True, slots=True)
class ExportedRecord:
    """A record of an export.

    Attributes:
        number: Its place in the export, from 1.
        row: Its checked columns; None if the table is left out, or part of the record is lost.
        owner: The tenant and user in it, as far as there are any.
        lost: Whether part of it could not be decrypted any more when it was exported.
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
    lines, end = _Lines(), EndOfExport()
    async for piece in pieces:
        lines.add(piece)
        while lines.left:
            part = await in_thread_if_long(lines.work, _read_part, lines, end, rules)
            for record in part.records:
                yield record
            part.done()
    part = await in_thread_if_long(lines.work, _read_part, lines, end, rules, last=True)
    for record in part.records:
        yield record
    part.done()
    end.check(lines.count)


class EndOfExport:
    """Whether an export is whole, as far as it says so itself.

    The first line says that a manifest follows. An export of an earlier version says nothing.
    """

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._announced = self._ended = False

    def note(self, record: ExportedRecord, *, announces: bool) -> bool:
        """Whether the line is a record, and not the manifest.

        Raises:
            InvalidRequest: It follows the manifest, or is one of another export.
        """
        if self._ended:
            raise record.refused("follows the manifest, which is the end of an export")
        self._announced |= announces
        if record.table != MANIFEST:
            self._counts[record.table] += 1
            return True
        self._ended = True
        counts = record.raw.get("counts")
        told = None
        if isinstance(counts, dict) and _counts(counts):
            told = {table: count for table, count in counts.items() if count}
        if told != self._counts:
            raise record.refused(
                "is the manifest of other records than came before it: the export is not whole, or "
                "was changed"
            )
        return False

    def check(self, count: int) -> None:
        """Refuse an export without the end that it announced; `count` is that of its lines.

        Raises:
            InvalidRequest: It was cut off.
        """
        if self._announced and not self._ended:
            raise invalid(
                f"records[{count + 1}]",
                "is missing: the export was cut off before its manifest. What came is stored; "
                "import the whole file again",
            )


def _counts(told: Any) -> bool:
    return isinstance(told, dict) and all(type(count) is int for count in told.values())


class _Lines:
    """The lines in the pieces that came.

    Attributes:
        count: Lines that have ended, empty ones included.
    """

    def __init__(self) -> None:
        self.count = 0
        self._begun = bytearray()
        self._piece = b""
        self._at = 0

    def add(self, piece: bytes) -> None:
        """The next piece; the last one was read."""
        self._piece, self._at = piece, 0

    @property
    def left(self) -> int:
        """Bytes of the piece that were not read."""
        return len(self._piece) - self._at

    @property
    def work(self) -> int:
        """The work of reading the next part, in characters (`in_thread_if_long`)."""
        return _WORK_OF_A_BYTE * (min(self.left, PART_BYTES) + len(self._begun))

    def next(self) -> bytes | None:
        """The next line that is not empty; None: the piece was read, and may end within a line.

        Raises:
            InvalidRequest: The line is too long.
        """
        if not self._begun:
            self._pass_blanks()
        end = self._piece.find(b"\n", self._at)
        found = self._piece[self._at : end] if end >= 0 else self._piece[self._at :]
        self._at += len(found) + (end >= 0)
        if len(self._begun) + len(found) > MAX_LINE_BYTES:
            raise invalid(
                f"records[{self.count + 1}]",
                f"must have at most {MAX_LINE_BYTES} bytes on its line",
            )
        if end < 0:
            self._begun += found
            return None
        self.count += 1
        return self._taken(found)

    def rest(self) -> bytes:
        """The last line, which has no end."""
        self.count += bool(self._begun)
        return self._taken(b"")

    def _taken(self, found: bytes) -> bytes:
        if not self._begun:
            return found
        whole = bytes(self._begun + found)
        self._begun.clear()
        return whole

    def _pass_blanks(self) -> None:
        """Go to the first line that is not empty: an export may have millions of others."""
        blank = _BLANK.match(self._piece, self._at)
        assert blank is not None
        end = self._piece.rfind(b"\n", self._at, blank.end())
        if end >= 0:
            self.count += self._piece.count(b"\n", self._at, end + 1)
            self._at = end + 1


@dataclass(slots=True)
class _Part:
    """The records of a part, and why the line after them is none."""

    records: list[ExportedRecord] = field(default_factory=list)
    refusal: InvalidRequest | None = None

    def done(self) -> None:
        """Raise that refusal, once what was wrong with the records before it would have been."""
        if self.refusal is not None:
            raise self.refusal


def _read_part(lines: _Lines, end: EndOfExport, rules: Rules, *, last: bool = False) -> _Part:
    """The records on the next lines of the piece; with `last` on the one that has no end."""
    part, size = _Part(), 0
    try:
        while size < PART_BYTES and (line := lines.rest() if last else lines.next()) is not None:
            if line.strip():
                record, announces = _read(lines.count, line, rules)
                if end.note(record, announces=announces):
                    part.records.append(record)
            size += len(line)
            if last:
                break
    except InvalidRequest as refusal:
        part.refusal = refusal
    return part


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
