"""Calls with one request and one reply, by Connect's unary protocol."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Receive, Scope

from hitherto_client.errors import Violation
from hitherto_client.http_door import incoming
from hitherto_client.http_door.channels import DoorChannels, Watched
from hitherto_client.http_door.codecs import Codec
from hitherto_client.http_door.connect_error import ConnectError, invalid
from hitherto_client.http_door.methods import DoorMethod

COMPRESSED_FROM = 1024
"""Bytes of a reply from which packing it is worth the time."""


async def call_unary(
    channels: DoorChannels,
    method: DoorMethod,
    codec: Codec,
    data: bytes,
    headers: Headers,
    receive: Receive,
    request_id: str,
) -> Response:
    """The reply to a request that has been read.

    `receive` tells when the client leaves. `request_id` is the id in force.

    Raises:
        ClientGone: The client has left.
        ConnectError: The call failed.
    """
    request = await codec.request(method, data)
    seconds = incoming.timeout(headers, method.seconds)
    call = channels.call(method)(
        request, timeout=seconds, metadata=incoming.metadata(headers, request_id)
    )
    async with Watched(call, method, receive):
        reply = await call
    told = await codec.reply(method, reply)
    response = Response(media_type=f"application/{codec.name}")
    if len(told) >= COMPRESSED_FROM and incoming.accepts_gzip(headers.get("accept-encoding", "")):
        told = incoming.packed(told)
        response.headers["content-encoding"] = incoming.GZIP
    response.headers["vary"] = "accept-encoding"
    add_metadata(response.headers, await call.initial_metadata(), await call.trailing_metadata())
    response.headers["content-length"] = str(len(told))
    response.body = told
    return response


def add_metadata(headers: MutableHeaders, leading: Any, trailing: Any) -> None:
    """Add what a service said beside its reply to the headers, as the protocol does."""
    for name, value in incoming.added(leading, ""):
        headers.append(name, value)
    for name, value in incoming.added(trailing, "trailer-"):
        headers.append(name, value)


async def posted(receive: Receive, headers: Headers, share: incoming.Share) -> bytes:
    """The request of a POST.

    Raises:
        ClientGone: The client has left.
        ConnectError: It cannot be read.
    """
    incoming.check_version(headers.get("connect-protocol-version"), "1", "Connect-Protocol-Version")
    encoding = incoming.check_encoding(headers.get("content-encoding", ""))
    body = await incoming.whole_body(receive, share)
    return incoming.unpacked(body, encoding, share)


def asked_for(
    scope: Scope, codecs: Mapping[str, Codec], share: incoming.Share
) -> tuple[Codec, bytes]:
    """The form and the request of a GET, which are in its query.

    Raises:
        ConnectError: They cannot be read.
    """
    text = scope["query_string"].decode("latin-1")
    try:
        given = parse_qs(text, keep_blank_values=True, strict_parsing=False, errors="strict")
    except ValueError:
        raise invalid([Violation("message", "is not UTF-8")], "UNDECODABLE_REQUEST") from None
    query = {name: values[-1] for name, values in given.items()}
    incoming.check_version(query.get("connect"), "v1", "connect")
    name = query.get("encoding", "json")
    if name not in codecs:
        raise ConnectError(
            "invalid_argument",
            f"encoding should be one of {', '.join(codecs)}, and is {name[:50]}",
            status=415,
        )
    if "message" not in query:
        raise invalid(
            [Violation("message", "is missing: the request, as in ?encoding=json&message={}")]
        )
    data = query["message"].encode()
    if query.get("base64") == "1":
        data = _from_base64(query["message"])
    encoding = incoming.check_encoding(query.get("compression", ""))
    return codecs[name], incoming.unpacked(data, encoding, share)


def _from_base64(text: str) -> bytes:
    """What base64 for URLs says, padded or not."""
    try:
        plain = text.rstrip("=").encode("ascii")
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise invalid(
            [Violation("message", "is not base64 for URLs")], "UNDECODABLE_REQUEST"
        ) from None
