"""Just enough HTTP/1.1 for a server on 127.0.0.1: requests with a length, replies kept alive."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

_MAX_BODY = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read the next request of a connection, or None if the client has gone."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        length = int(headers.get("content-length", "0"))
        body = await reader.readexactly(length) if 0 < length <= _MAX_BODY else b""
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return Request(method, path.partition("?")[0], headers, body)


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """The status line and the headers of a reply."""
    known = {item.value: item.phrase for item in HTTPStatus}
    lines = [f"HTTP/1.1 {status} {known.get(status, 'Scripted')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def reply(
    status: int, body: bytes, *, content_type: str, headers: Mapping[str, str] | None = None
) -> bytes:
    """A whole reply with its length."""
    fields = {"Content-Type": content_type, "Content-Length": str(len(body))}
    return head(status, fields | dict(headers or {})) + body


def reset(writer: asyncio.StreamWriter) -> None:
    """Cut the connection so that the client sees a reset, not an orderly end."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        # Linger of zero seconds: closing sends RST and drops what was not delivered.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
