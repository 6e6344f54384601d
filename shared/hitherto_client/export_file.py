"""A file that holds an export: whether it is whole, and how many records of each table it has."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, BinaryIO

_MOST_LINE_BYTES = 16 * 1024 * 1024
"""Bytes of a line that the services accept."""
_MANIFEST = "manifest"
"""What the last line names in place of a table, if the first one announces it."""
_NAMED = re.compile(rb'\{\s*"table"\s*:\s*"([^"\\]{1,64})"')
_LONGEST_ODD_LINE = 1024 * 1024
_TAIL_BYTES = 128


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
            announced |= b'"manifest"' in line[-_TAIL_BYTES:] and _announces(line)
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


def _announces(line: bytes) -> bool:
    return _object(line).get(_MANIFEST) is True


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
