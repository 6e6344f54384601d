"""A caller who speaks HTTP/2 by hand, to do what no gRPC client does: read nothing, say half."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Self

from tests.varint import varint

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0x0, 0x1, 0x4
_END_STREAM, _ACK, _END_HEADERS = 0x1, 0x1, 0x4
_INITIAL_WINDOW_SIZE = 0x4


class RawConnection:
    """A connection whose streams may receive `window` bytes each, and never more."""

    def __init__(self, address: str, *, window: int = 0) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=120)
        self._next = 1
        settings = struct.pack(">HI", _INITIAL_WINDOW_SIZE, window)
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, settings))
        self._socket.sendall(_frame(_SETTINGS, _ACK, 0, b""))

    def call(self, path: str, body: bytes | None, metadata: Sequence[tuple[str, str]] = ()) -> None:
        """Begin a call; a body of None never comes."""
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "test"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            *metadata,
        ]
        block = b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers)
        sent = _frame(_HEADERS, _END_HEADERS, self._next, block)
        if body is not None:
            message = b"\x00" + struct.pack(">I", len(body)) + body
            sent += _frame(_DATA, _END_STREAM, self._next, message)
        self._socket.sendall(sent)
        self._next += 2

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _text(text: str) -> bytes:
    """A literal of HPACK without Huffman coding; its length has a prefix of seven bits."""
    data = text.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    return b"\x7f" + varint(len(data) - 127) + data
