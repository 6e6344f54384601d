"""Lists as parameters of hot statements, converted to Postgres' binary form at once.

psycopg inspects every element of a list to determine its type, which takes longer than a small
search in Postgres. A typed list avoids that. On connections without registration these are ordinary
lists. `records` and `fields_of` turn whole rows into parameters.
"""

from __future__ import annotations

import json
import struct
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

import numpy as np
from psycopg import AsyncConnection
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.json import Json, Jsonb

_HEADER = struct.Struct(">iiIii")
_NOTHING = struct.Struct(">iiI")
_SIZED_INTEGER = np.dtype([("size", ">i4"), ("value", ">i4")])
_UUID_SIZE = (16).to_bytes(4, "big")

Element = TypeVar("Element")


class Texts(list[str]):
    """A `text[]`."""


class Integers(list[int]):
    """An `int[]`."""


class Uuids(list[UUID]):
    """A `uuid[]`; one that is sent again and again is not changed, and converted once."""

    binary = b""


def records(rows: Sequence[Mapping[str, Any]]) -> Json:
    """Rows as one parameter, which a function such as `json_to_recordset` turns into rows.

    Several rows of many columns are written faster by one statement than by one statement each.
    """
    return Json(rows, dumps=_RECORDS.encode)


def fields_of(item: Any) -> dict[str, Any]:
    """The fields of a dataclass as parameters by name; a tuple is an array."""
    values = {each.name: getattr(item, each.name) for each in fields(item)}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


class _ArrayDumper(Dumper, Generic[Element]):
    """The binary form: dimensions, flags, the type of elements, size, lower bound, elements."""

    format = Format.BINARY
    element_oid: ClassVar[int]

    def dump(self, obj: list[Element]) -> bytes:
        """See `psycopg.adapt.Dumper`."""
        if not obj:
            return _NOTHING.pack(0, 0, self.element_oid)
        return _HEADER.pack(1, 0, self.element_oid, len(obj), 1) + self._elements(obj)

    @abstractmethod
    def _elements(self, values: list[Element]) -> bytes:
        """Each value after its size in bytes."""


class _TextsDumper(_ArrayDumper[str]):
    oid, element_oid = 1009, 25

    def __init__(self, cls: type, context: Any = None) -> None:
        super().__init__(cls, context)
        self._encoding = self.connection.info.encoding if self.connection else "utf-8"

    def _elements(self, values: list[str]) -> bytes:
        parts: list[bytes] = []
        for value in values:
            encoded = value.encode(self._encoding)
            parts += (len(encoded).to_bytes(4, "big"), encoded)
        return b"".join(parts)


class _IntegersDumper(_ArrayDumper[int]):
    oid, element_oid = 1007, 23

    def _elements(self, values: list[int]) -> bytes:
        elements = np.empty(len(values), dtype=_SIZED_INTEGER)
        elements["size"] = 4
        elements["value"] = values
        return elements.tobytes()


class _UuidsDumper(_ArrayDumper[UUID]):
    oid, element_oid = 2951, 2950

    def dump(self, obj: list[UUID]) -> bytes:
        """See `psycopg.adapt.Dumper`."""
        if not isinstance(obj, Uuids):
            return super().dump(obj)
        obj.binary = obj.binary or super().dump(obj)
        return obj.binary

    def _elements(self, values: list[UUID]) -> bytes:
        return b"".join([_UUID_SIZE + value.bytes for value in values])


def _in_json(value: Any) -> Any:
    """A value of a column as Postgres reads it from JSON."""
    if isinstance(value, Jsonb):
        return value.obj
    return f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)


_RECORDS = json.JSONEncoder(default=_in_json, check_circular=False)


def register_arrays(connection: AsyncConnection[Any]) -> None:
    """Send `Texts`, `Integers` and `Uuids` in binary form on this connection."""
    connection.adapters.register_dumper(Texts, _TextsDumper)
    connection.adapters.register_dumper(Integers, _IntegersDumper)
    connection.adapters.register_dumper(Uuids, _UuidsDumper)
