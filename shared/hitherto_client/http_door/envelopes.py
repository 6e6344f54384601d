"""The messages of streams, in the envelopes of Connect's streaming protocol.

An envelope is a byte of flags, the length in four bytes, and the message. HTTP/1.1 is half-duplex:
all requests come before the first reply.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Receive, Send

from hitherto_client.errors import Violation
from hitherto_client.http_door import incoming
from hitherto_client.http_door.codecs import Codec
from hitherto_client.http_door.connect_error import ConnectError, invalid

UNREAD_SECONDS = 60.0
"""How long a client may read nothing of a stream."""

_PACKED, _END = 1, 2
_HEAD = struct.Struct(">BI")


class StreamReply:
    """The reply to a stream: its head, messages, and an end that says how it went."""

    def __init__(self, codec: Codec, headers: Headers, send: Send, request_id: str) -> None:
        self._send = send
        self._gzip = incoming.accepts_gzip(headers.get("connect-accept-encoding", ""))
        self._begun = False
        self._headers = [
            ("content-type", f"application/connect+{codec.name}"),
            (incoming.REQUEST_ID, request_id),
        ]
        if self._gzip:
            self._headers.append(("connect-content-encoding", incoming.GZIP))

    async def begin(self, metadata: Any = ()) -> None:
        """Send the head, with metadata of the call."""
        if self._begun:
            return
        self._begun = True
        headers = [*self._headers, *incoming.added(metadata, "")]
        start = {
            "type": "http.response.start",
            "status": 200,
            "headers": [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers],
        }
        await self._send(start)

    async def message(self, data: bytes) -> None:
        """Send a message."""
        await self._envelope(0, data)

    async def end(self, error: ConnectError | None, metadata: Any = ()) -> None:
        """Send the end."""
        told: dict[str, Any] = {}
        if error is not None:
            told["error"] = error.to_json()
        for name, value in incoming.added(metadata, ""):
            told.setdefault("metadata", {}).setdefault(name, []).append(value)
        await self.begin()
        await self._envelope(_END, json.dumps(told, ensure_ascii=False).encode(), more=False)

    async def _envelope(self, flags: int, data: bytes, *, more: bool = True) -> None:
        if self._gzip and len(data) >= incoming.COMPRESSED_FROM:
            flags, data = flags | _PACKED, await incoming.packed(data)
        body = _HEAD.pack(flags, len(data)) + data
        try:
            async with asyncio.timeout(UNREAD_SECONDS):
                await self._send({"type": "http.response.body", "body": body, "more_body": more})
        except TimeoutError:
            raise incoming.ClientGone from None


async def only(messages: AsyncIterator[bytes]) -> bytes:
    """The one request of a call that takes one."""
    found: bytes | None = None
    async for each in messages:
        if found is not None:
            raise _takes_one("more")
        found = each
    if found is None:
        raise _takes_one("none")
    return found


def _takes_one(got: str) -> ConnectError:
    return ConnectError("unimplemented", f"this call takes one request in an envelope, got {got}")


async def messages_in(
    receive: Receive, encoding: str, share: incoming.Share
) -> AsyncIterator[bytes]:
    """The messages in the envelopes of a body, as they arrive."""
    waiting = bytearray()
    async for chunk in incoming.chunks(receive):
        share.grow(len(chunk))
        waiting += chunk
        while len(waiting) >= _HEAD.size:
            flags, size = _HEAD.unpack_from(waiting)
            if flags & ~_PACKED or (flags and encoding == incoming.IDENTITY):
                raise _no_envelope(flags)
            if size > incoming.MAX_BODY_BYTES:
                raise incoming.too_large()
            if len(waiting) < _HEAD.size + size:
                break
            data = bytes(waiting[_HEAD.size : _HEAD.size + size])
            del waiting[: _HEAD.size + size]
            others = share.held - _HEAD.size - size
            yield incoming.unpacked(data, encoding if flags else incoming.IDENTITY, share)
            share.shrink(share.held - others)
    if waiting:
        raise _no_envelope(0)


def _no_envelope(flags: int) -> ConnectError:
    told = (
        "the body should consist of envelopes: a byte of flags, 0, the length of the message in"
        " four bytes, and the message"
    )
    if flags == _PACKED:
        told = "a packed message needs the header Connect-Content-Encoding: gzip"
    return invalid([Violation("request", told)], "UNDECODABLE_REQUEST")
