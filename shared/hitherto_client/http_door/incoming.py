"""What an HTTP request says besides its message: metadata, deadline, encodings, and its body."""

from __future__ import annotations

import asyncio
import base64
import uuid
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

from starlette.datastructures import Headers
from starlette.types import Receive

from hitherto_client.errors import Violation
from hitherto_client.http_door.connect_error import ConnectError, invalid, refusal

MAX_BODY_BYTES = 4 * 1024 * 1024
"""What one message may have, unpacked: as much as over gRPC."""
MAX_HELD_BYTES = 64 * 1024 * 1024
"""What the bodies may have together that are read at the same time, and their beginnings too."""
_BEGINNING = 64 * 1024
"""Of each body; it counts by itself: who fills the room with large ones keeps no small one out."""
_MOST_DISCARDED = 16 * 1024 * 1024
"""Larger bodies are read up to here: many clients see no answer before they have sent all."""
FORWARDED = ("authorization", "traceparent", "tracestate")
"""The headers that become metadata of the call, beside the request id."""
REQUEST_ID = "x-request-id"
GZIP = "gzip"
IDENTITY = "identity"
LARGE_BYTES = 64 * 1024
"""Messages above this size are packed and written as JSON beside the event loop."""
COMPRESSED_FROM = 1024
"""Bytes of a reply from which packing it is worth the time."""

_MAX_REQUEST_ID = 128
_MAX_TIMEOUT_DIGITS = 10
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class ClientGone(Exception):
    """Whoever sent the request has closed the connection, and nobody waits for an answer."""


def request_id(headers: Headers) -> str:
    """The id under which the services log the call: the caller's own if it can be one."""
    given = headers.get(REQUEST_ID, "")
    usable = given.isascii() and given.isprintable() and len(given) <= _MAX_REQUEST_ID
    return given if given and usable else str(uuid.uuid4())


def metadata(headers: Headers, named: str) -> list[tuple[str, str]]:
    """What goes with the call over gRPC.

    `named` is the request id in force.
    """
    found = [(REQUEST_ID, named)]
    for name in FORWARDED:
        # All of them: several credentials are none, and to choose is not the door's to do.
        for value in headers.getlist(name):
            if not (value.isascii() and value.isprintable()):
                raise invalid([Violation(name, "this header may have printable ASCII only")])
            found.append((name, value))
    return found


def timeout(headers: Headers, default: float | None) -> float | None:
    """Seconds that the call may take; None for no limit."""
    given = headers.get("connect-timeout-ms")
    if given is None:
        return default
    if not (given.isascii() and given.isdigit() and len(given) <= _MAX_TIMEOUT_DIGITS):
        raise invalid(
            [Violation("Connect-Timeout-Ms", "should be milliseconds, in up to 10 digits")]
        )
    return int(given) / 1000


def check_version(given: str | None, expected: str, name: str) -> None:
    """Refuse a version of the protocol that is not spoken here; a missing one is the newest."""
    if given is not None and given != expected:
        raise invalid([Violation(name, f"should be {expected}, and is {given[:50]}")])


def check_encoding(given: str) -> str:
    """The encoding of a body."""
    if given in {"", IDENTITY}:
        return IDENTITY
    if given == GZIP:
        return GZIP
    raise ConnectError(
        "unimplemented",
        f"the encoding {given[:50]} is not known here: send gzip or identity",
        headers={"accept-encoding": GZIP},
    )


def unpacked(data: bytes, encoding: str, share: Share) -> bytes:
    """A message without its encoding; what it grows to is held by `share`."""
    if encoding == IDENTITY or not data:
        return data
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = unpacker.decompress(data, MAX_BODY_BYTES + 1)
    except zlib.error:
        plain = b""
    if len(plain) > MAX_BODY_BYTES:
        raise too_large()
    if not unpacker.eof:
        raise invalid(
            [Violation("request", "is not gzip, as content-encoding says")], "UNDECODABLE_REQUEST"
        )
    share.grow(len(plain))
    return plain


async def packed(data: bytes) -> bytes:
    """A message in gzip; a large one is packed in a thread."""
    return await asyncio.to_thread(_packed, data) if len(data) > LARGE_BYTES else _packed(data)


def _packed(data: bytes) -> bytes:
    # The lowest level: time matters more here than the last bytes.
    packer = zlib.compressobj(1, wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def accepts_gzip(given: str) -> bool:
    """Whether whoever sent this list of encodings takes gzip."""
    for each in given.split(","):
        name, _, weight = each.replace(" ", "").partition(";")
        if name.lower() == GZIP:
            return weight.lower() not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


def too_large() -> ConnectError:
    """The error of a message above the limit."""
    return refusal(
        "resource_exhausted",
        f"a request may have at most {MAX_BODY_BYTES:,} bytes: send less at once",
        "REQUEST_TOO_LARGE",
        {"max_bytes": str(MAX_BODY_BYTES)},
    )


class BodyRoom:
    """Bounds the memory of bodies that are read, whoever sends them."""

    def __init__(self) -> None:
        self.beginnings = 0
        self.rest = 0

    @contextmanager
    def share(self) -> Iterator[Share]:
        """The share of one request."""
        share = Share(self)
        try:
            yield share
        finally:
            share.shrink(share.held)


class Share:
    """What one request holds of the room."""

    __slots__ = ("_room", "held")

    def __init__(self, room: BodyRoom) -> None:
        self._room = room
        self.held = 0

    def grow(self, size: int) -> None:
        """Hold that much more."""
        held, room = self.held + size, self._room
        beginning = min(held, _BEGINNING) - min(self.held, _BEGINNING)
        rest = size - beginning
        if (beginning and room.beginnings + beginning > MAX_HELD_BYTES) or (
            rest and room.rest + rest > MAX_HELD_BYTES
        ):
            raise refusal(
                "resource_exhausted",
                "too many requests are being read: try again",
                "OVERLOADED",
                {"limit": "held_bytes"},
                retry_after=1,
            )
        room.beginnings += beginning
        room.rest += rest
        self.held = held

    def shrink(self, size: int) -> None:
        """Hold that much less."""
        held = self.held - size
        beginning = min(self.held, _BEGINNING) - min(held, _BEGINNING)
        self._room.beginnings -= beginning
        self._room.rest -= size - beginning
        self.held = held


async def chunks(receive: Receive) -> AsyncIterator[bytes]:
    """The body of a request as it arrives."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


async def whole_body(receive: Receive, share: Share) -> bytes:
    """The body of a request."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks(receive):
        size += len(chunk)
        if size > _MOST_DISCARDED:
            break
        if size <= MAX_BODY_BYTES:
            share.grow(len(chunk))
            parts.append(chunk)
    if size > MAX_BODY_BYTES:
        raise too_large()
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def gone(receive: Receive) -> None:
    """Return once the client has closed the connection; the body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


def added(given: Sequence[tuple[str, str | bytes]] | None, prefix: str) -> list[tuple[str, str]]:
    """Metadata of a reply as headers, without that of gRPC itself."""
    found = []
    for name, value in given or ():
        if not name.startswith("grpc-") and name != "content-type":
            text = value if isinstance(value, str) else base64.b64encode(value).decode()
            found.append((f"{prefix}{name}", text))
    return found
