"""Splits the pieces of an export into lines, and reads a record from each.

Memory holds one piece and one line at a time.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

from hitherto_extraction.restoring.columns import check_row
from hitherto_extraction.restoring.tables import IMPORTED, LEFT_OUT, OWNERS
from hitherto_shared.errors import InvalidRequest, invalid
from hitherto_shared.offloading import beside_loop
from hitherto_shared.validation import Checks

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Above the largest row: a document of 4 MiB, with its escapes."""
_KEYS = {"table", "row", "lost"}


@dataclass(frozen=True, slots=True)
class ExportedRecord:
    """A record of an export.

    Attributes:
        number: Its place in the export, from 1.
        table: Its table.
        row: Its checked columns; None if the table is left out, or part of the record is lost.
        owner: The tenant and user in it, as far as there are any.
        raw: The row as it was sent.
        size: Bytes of its line.
        lost: Whether part of it could not be decrypted any more when it was exported.
    """

    number: int
    table: str
    row: dict[str, Any] | None
    owner: tuple[Any, Any]
    raw: dict[str, Any]
    size: int
    lost: bool

    def refused(self, why: str) -> InvalidRequest:
        """The refusal of this record."""
        return invalid(f"records[{self.number}]", why)


async def read_records(pieces: AsyncIterator[bytes]) -> AsyncGenerator[ExportedRecord]:
    """The records of an export, in order.

    Raises:
        InvalidRequest: A line is no record, or a column has a value that it may not have.
    """
    number = 0
    async for line in _lines(pieces):
        number += 1
        if line.strip():
            yield await beside_loop(len(line), _read, number, line)


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    held: list[bytes] = []
    size = count = 0
    async for piece in pieces:
        first, *more = piece.split(b"\n")
        held.append(first)
        size += len(first)
        for following in more:
            count += 1
            yield b"".join(held)
            held, size = [following], len(following)
        if size > MAX_LINE_BYTES:
            raise invalid(
                f"records[{count + 1}]", f"must have at most {MAX_LINE_BYTES} bytes on its line"
            )
    if size:
        yield b"".join(held)


def _read(number: int, line: bytes) -> ExportedRecord:
    field = f"records[{number}]"
    try:
        value = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise invalid(
            field, "must be a JSON object on one line; is the file a complete export?"
        ) from None
    if not isinstance(value, dict) or not isinstance(value.get("row"), dict):
        raise invalid(field, 'must be an object such as {"table": "memories", "row": {...}}')
    checks = Checks()
    for unknown in value.keys() - _KEYS:
        checks.add(f"{field}.{unknown[:64]!r}", "is not known to this version of the service")
    table, raw, lost = value.get("table"), value["row"], value.get("lost", False)
    if not isinstance(lost, bool):
        checks.add(f"{field}.lost", "must be true or false")
    row = None
    if not isinstance(table, str) or (table not in IMPORTED and table not in LEFT_OUT):
        checks.add(f"{field}.table", "must be a table that this version of the service exports")
    elif table in IMPORTED:
        for owner in sorted(OWNERS):
            if not isinstance(raw.get(owner), str):
                checks.add(f"{field}.row.{owner}", "must be the text that the export has")
        known = IMPORTED[table]
        if not lost:
            row = check_row(checks, f"{field}.row", raw, known.columns, known.ignored)
            if known.also is not None:
                known.also(checks, f"{field}.row", row)
    checks.done()
    owners = (raw.get("tenant_id"), raw.get("user_id"))
    return ExportedRecord(number, str(table), row, owners, raw, len(line), bool(lost))


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")
