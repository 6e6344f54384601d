"""Finds the field that makes a request undecodable.

The protobuf runtime only reports a failure. Text that is not UTF-8 is the usual cause, and its
sender needs to know where it is.
"""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from hitherto_shared.errors import FieldViolation
from hitherto_shared.rpc.outlines import Outline, outline_of

_MAX_NESTING = 100
"""Maximum nesting of messages that the protobuf runtime accepts."""
_MAX_FIELDS = 50_000
"""Maximum number of texts and messages to examine, so that a request with millions of them costs no
more than others."""

_FREE_JSON = "google.protobuf.Struct"
_NO_MESSAGE = FieldViolation("request", "is not the protobuf message this call takes")


def undecodable_field(message: Descriptor, data: bytes) -> FieldViolation:
    """The fault in `data`, which could not be decoded as `message`: the least nested one.

    Paths end at free JSON and maps, because callers do not see what these are made of.
    """
    examined = 0
    level: list[tuple[str, bool, Outline, bytes]] = [("", False, outline_of(message), data)]
    for _ in range(_MAX_NESTING + 1):
        beneath: list[tuple[str, bool, Outline, bytes]] = []
        for path, opaque, outline, content in level:
            try:
                read = outline.parse(content)
            except DecodeError:
                return _NO_MESSAGE
            for field, nested in outline.fields:
                for place, value in enumerate(getattr(read, field.name)):
                    examined += 1
                    if examined > _MAX_FIELDS:
                        return _NO_MESSAGE
                    where = path if opaque else _path(path, field, place)
                    if nested is not None:
                        beneath.append((where, opaque or _is_opaque(field), nested, value))
                    elif field.type == FieldDescriptor.TYPE_STRING and not _is_utf8(value):
                        return FieldViolation(where, "must be valid UTF-8")
        if not beneath:
            return _NO_MESSAGE
        level = beneath
    return FieldViolation(level[0][0], "is nested too deep")


def _path(parent: str, field: FieldDescriptor, place: int) -> str:
    name = f"{parent}.{field.name}" if parent else field.name
    return f"{name}[{place}]" if field.is_repeated and not _is_map(field) else name


def _is_opaque(field: FieldDescriptor) -> bool:
    inner = field.message_type
    return _is_map(field) or (inner is not None and inner.full_name == _FREE_JSON)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
