"""Finds the field that makes a request undecodable, by walking its bytes.

The protobuf runtime only reports a failure. Text that is not UTF-8 is the usual cause, and its
sender needs to know where it is.
"""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from hitherto_shared.errors import FieldViolation

_MAX_NESTING = 100
"""Maximum nesting of messages that the protobuf runtime accepts."""
_MAX_FIELDS = 50_000
"""Maximum number of fields to examine, so that a request with millions of them costs no more than
others."""

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_FREE_JSON = "google.protobuf.Struct"


class _Found(Exception):
    """The walk reached the fault."""

    def __init__(self, violation: FieldViolation) -> None:
        super().__init__()
        self.violation = violation


class _Malformed(Exception):
    """The bytes are not in the wire format, or there are too many fields to examine them all."""


def undecodable_field(message: Descriptor, data: bytes) -> FieldViolation:
    """The fault in `data`, which could not be decoded as `message`."""
    try:
        _Walk(data).message(message, 0, len(data), path="", opaque=False, depth=0)
    except _Found as found:
        return found.violation
    except _Malformed:
        pass
    return FieldViolation("request", "is not the protobuf message this call takes")


class _Walk:
    """One pass over the bytes of a request."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._fields = 0

    def message(
        self, descriptor: Descriptor, start: int, end: int, *, path: str, opaque: bool, depth: int
    ) -> None:
        """Walk one message.

        Below an `opaque` one, paths are not extended, because callers do not see it.

        Raises:
            _Found: A field is at fault.
            _Malformed: These bytes are no message.
        """
        if depth > _MAX_NESTING:
            raise _Found(FieldViolation(path, "is nested too deep"))
        seen: dict[int, int] = {}
        at = start
        while at < end:
            self._fields += 1
            if self._fields > _MAX_FIELDS:
                raise _Malformed
            tag, at = self._varint(at, end)
            number, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                _, at = self._varint(at, end)
                continue
            if kind in (_EIGHT_BYTES, _FOUR_BYTES):
                at += 8 if kind == _EIGHT_BYTES else 4
                continue
            if kind != _LENGTH:
                raise _Malformed
            length, at = self._varint(at, end)
            if at + length > end:
                raise _Malformed
            field = descriptor.fields_by_number.get(number)
            if field is not None:
                place = seen.get(number, 0)
                seen[number] = place + 1
                where = path if opaque else _path(path, field, place)
                self._value(field, at, at + length, path=where, opaque=opaque, depth=depth)
            at += length
        if at != end:
            raise _Malformed

    def _value(
        self, field: FieldDescriptor, start: int, end: int, *, path: str, opaque: bool, depth: int
    ) -> None:
        if field.type == FieldDescriptor.TYPE_STRING:
            try:
                self._data[start:end].decode()
            except UnicodeDecodeError:
                raise _Found(FieldViolation(path, "must be valid UTF-8")) from None
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            inner = field.message_type
            assert inner is not None
            self.message(
                inner,
                start,
                end,
                path=path,
                opaque=opaque or inner.full_name == _FREE_JSON or _is_map_entry(inner),
                depth=depth + 1,
            )

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if at >= end:
                raise _Malformed
            byte = self._data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
        raise _Malformed


def _path(parent: str, field: FieldDescriptor, place: int) -> str:
    name = f"{parent}.{field.name}" if parent else field.name
    if field.is_repeated and not (field.message_type and _is_map_entry(field.message_type)):
        return f"{name}[{place}]"
    return name


def _is_map_entry(message: Descriptor) -> bool:
    return bool(message.GetOptions().map_entry)
