"""Decodes requests, and refuses bytes that would grow many times over in memory.

A nested message of two bytes takes a hundred once it is decoded, so 4 MiB of them become 280 MB.
They are counted first, level by level, in their outlines (`outlines`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from hitherto_shared.errors import Exhausted, FieldViolation, HithertoError, InvalidRequest
from hitherto_shared.rpc.outlines import Outline, outline_of
from hitherto_shared.rpc.undecodable import undecodable_field

MAX_ELEMENTS = 250_000
"""Maximum nested messages and repeated texts in one request: more than the limits of any call
allow."""
_MAX_PATHS = 5_000
"""Maximum distinct paths to examine, because free-form JSON may have many."""
_SMALLEST = 2
"""Minimum bytes of an element."""
COUNTED_BYTES = MAX_ELEMENTS * _SMALLEST
"""Larger requests may contain too many elements."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes the requests of one method.

    `deserialize` is the generated code's own.
    """

    method: str
    deserialize: Callable[[bytes], Any]
    declared: Descriptor | None

    def decode(self, data: bytes) -> Any:
        """The request.

        Raises:
            InvalidRequest: The bytes are not the message.
            Exhausted: They contain too many elements.
        """
        if self.declared is not None and len(data) > COUNTED_BYTES:
            try:
                overfull = _overfull(outline_of(self.declared, repeated=True), data)
            except DecodeError:
                # Not decoded to find the fault: the part before it is not counted.
                raise self._undecodable(data) from None
            if overfull is not None:
                # Raised here, where nothing of the decoded request is alive any more.
                raise Exhausted(
                    f"{overfull}: a request may contain at most {MAX_ELEMENTS:,} nested messages "
                    "and strings in lists, and this one contains more: send less at once",
                    reason="REQUEST_TOO_LARGE",
                    metadata={"max_elements": str(MAX_ELEMENTS), "field": overfull},
                )
        try:
            return self.deserialize(data)
        except Exception:
            raise self._undecodable(data) from None

    def _undecodable(self, data: bytes) -> HithertoError:
        found = (
            undecodable_field(self.declared, data)
            if self.declared is not None
            else FieldViolation("request", "is not the protobuf message this call takes")
        )
        return InvalidRequest(
            [
                FieldViolation(
                    found.field, found.description, "UNDECODABLE_REQUEST", {"method": self.method}
                )
            ]
        )


def _overfull(outline: Outline, data: bytes) -> str | None:
    """Where a request has too many elements, level by level and all of one kind at once; or None.

    Messages of one kind in a row read as one message with the elements of all. Bytes at one path
    are kept in order, so that nothing hides behind bytes at which the real decoder would have ended
    before.

    Raises:
        DecodeError: The bytes are not in the wire format.
    """
    elements = paths = 0
    level: list[tuple[str, Outline, bytes]] = [("", outline, data)]
    while elements + sum(len(below) for _, _, below in level) // _SMALLEST > MAX_ELEMENTS:
        beneath: list[tuple[str, Outline, bytes]] = []
        for path, here, joined in level:
            paths += 1
            read = here.parse(joined)
            for field, nested in here.fields:
                found = getattr(read, field.name)
                elements += len(found)
                where = f"{path}.{field.name}" if path else field.name
                if elements > MAX_ELEMENTS or paths > _MAX_PATHS:
                    return where
                if nested is not None and found:
                    beneath.append((where, nested, b"".join(found)))
        level = beneath
    return None
