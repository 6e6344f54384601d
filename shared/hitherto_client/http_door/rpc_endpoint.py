"""The one endpoint behind `/SERVICE/METHOD`, and its calls by Connect's protocols.

Unary calls have one request and one reply; streams consist of messages in envelopes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import grpc
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from hitherto_client.errors import Violation
from hitherto_client.http_door import incoming
from hitherto_client.http_door.channels import DoorChannels, Watched
from hitherto_client.http_door.codecs import Codec, JsonCodec
from hitherto_client.http_door.connect_error import ConnectError, invalid
from hitherto_client.http_door.envelopes import StreamReply, messages_in, only
from hitherto_client.http_door.incoming import REQUEST_ID, BodyRoom, ClientGone, request_id
from hitherto_client.http_door.methods import DoorMethod, what_exists


@dataclass(frozen=True, slots=True)
class RpcCall:
    """The call of an RPC for one HTTP request. `receive` also tells when the client leaves."""

    channels: DoorChannels
    method: DoorMethod
    codec: Codec
    headers: Headers
    receive: Receive
    request_id: str
    """The id in force."""

    def _options(self) -> dict[str, Any]:
        return {
            "timeout": incoming.timeout(self.headers, self.method.seconds),
            "metadata": incoming.metadata(self.headers, self.request_id),
        }

    async def unary(self, data: bytes) -> Response:
        """The reply to a request that has been read."""
        request = await self.codec.request(self.method, data)
        call = self.channels.call(self.method)(request, **self._options())
        async with Watched(call, self.method, self.receive):
            reply = await call
        told = await self.codec.reply(self.method, reply)
        response = Response(media_type=f"application/{self.codec.name}")
        packs = incoming.accepts_gzip(self.headers.get("accept-encoding", ""))
        if packs and len(told) >= incoming.COMPRESSED_FROM:
            told = await incoming.packed(told)
            response.headers["content-encoding"] = incoming.GZIP
        response.headers["vary"] = "accept-encoding"
        leading, trailing = await call.initial_metadata(), await call.trailing_metadata()
        add_metadata(response.headers, leading, trailing)
        response.headers["content-length"] = str(len(told))
        response.body = told
        return response

    async def stream(self, reply: StreamReply, share: incoming.Share) -> None:
        """Make a call and send its replies and its end."""
        call: Any = None
        try:
            _check_version(self.headers)
            encoding = incoming.check_encoding(self.headers.get("connect-content-encoding", ""))
            options = self._options()
            messages = messages_in(self.receive, encoding, share)
            request = None
            if not self.method.takes_stream:
                request = await self.codec.request(self.method, await only(messages))
            with self.channels.stream() as leave:
                if request is None:
                    call = self.channels.call(self.method)(**options)
                    # Whoever is refused, without a credential too, may go on sending for long.
                    call.add_done_callback(lambda _: leave())
                    await self._send_all(call, messages)
                else:
                    call = self.channels.call(self.method)(request, **options)
                async with Watched(call, self.method, self.receive):
                    await self._pass_on(call, reply)
                trailers: Sequence[Any] = await call.trailing_metadata()
        except ConnectError as error:
            if call is not None:
                call.cancel()
            await reply.begin(error.leading)
            await reply.end(error, error.trailing)
        else:
            await reply.end(None, trailers)

    async def _send_all(self, call: Any, messages: AsyncIterator[bytes]) -> None:
        """Send the requests; a call that ends before all are sent says why to who reads it."""
        try:
            async for data in messages:
                await call.write(await self.codec.request(self.method, data))
            await call.done_writing()
        except (asyncio.InvalidStateError, grpc.aio.AioRpcError):
            # What is left of the body is read, so that the client sees the answer.
            with suppress(ConnectError):
                async for _ in messages:
                    pass
        except BaseException:
            call.cancel()
            raise

    async def _pass_on(self, call: Any, reply: StreamReply) -> None:
        if not self.method.gives_stream:
            data = await self.codec.reply(self.method, await call)
            await reply.begin(await call.initial_metadata())
            await reply.message(data)
            return
        await reply.begin(await call.initial_metadata())
        async for each in call:
            await reply.message(await self.codec.reply(self.method, each))


def _check_page(headers: Headers) -> None:
    """Refuse what a page of another site only embeds or links to: that has no origin to check."""
    if "origin" not in headers and headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        told = "web pages of other sites may not call this server without their origin: use fetch"
        raise ConnectError("permission_denied", told, status=403)


def _check_version(headers: Headers) -> None:
    name = "Connect-Protocol-Version"
    incoming.check_version(headers.get(name), "1", name)


def add_metadata(headers: MutableHeaders, leading: Any, trailing: Any) -> None:
    """Add what a service said beside its reply to the headers, as the protocol does."""
    for name, value in incoming.added(leading, ""):
        headers.append(name, value)
    for name, value in incoming.added(trailing, "trailer-"):
        headers.append(name, value)


async def posted(receive: Receive, headers: Headers, share: incoming.Share) -> bytes:
    """The request of a POST."""
    _check_version(headers)
    encoding = incoming.check_encoding(headers.get("content-encoding", ""))
    body = await incoming.whole_body(receive, share)
    return incoming.unpacked(body, encoding, share)


def asked_for(
    scope: Scope, codecs: Mapping[str, Codec], share: incoming.Share
) -> tuple[Codec, bytes]:
    """The form and the request of a GET, which are in its query."""
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
            [
                Violation(
                    "message", "is required: the request as JSON, as in ?encoding=json&message={}"
                )
            ]
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


_UNARY, _STREAM = "application/", "application/connect+"


class RpcEndpoint:
    """Calls the RPC that the path names."""

    def __init__(self, channels: DoorChannels, methods: Mapping[str, DoorMethod]) -> None:
        self._channels = channels
        self._methods = methods
        self._codecs = {codec.name: codec for codec in (JsonCodec(), Codec())}
        self._room = BodyRoom()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers = Headers(scope=scope)
        named = request_id(headers)
        try:
            response = await self._answer(scope, receive, send, headers, named)
        except ClientGone:
            return
        except ConnectError as error:
            response = error_response(error)
        if response is not None:
            response.headers[REQUEST_ID] = named
            await response(scope, receive, send)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, named: str
    ) -> Response | None:
        """The response; None if a stream has been sent."""
        path = f"/{scope['path_params']['service']}/{scope['path_params']['method']}"
        method = self._methods.get(path)
        if method is None:
            raise ConnectError(
                "unimplemented",
                f"there is no {path[:200]}: {what_exists(self._methods, path[:200])}",
                status=404,
            )
        if scope["method"] in {"GET", "HEAD"} and method.by_get:
            _check_page(headers)
            with self._room.share() as share:
                codec, data = asked_for(scope, self._codecs, share)
                call = RpcCall(self._channels, method, codec, headers, receive, named)
                return await call.unary(data)
        if scope["method"] != "POST":
            raise ConnectError(
                "unknown",
                f"call {method.path} with POST",
                status=405,
                headers={"allow": "GET, POST" if method.by_get else "POST"},
            )
        codec = self._codec(method, headers.get("content-type", ""))
        call = RpcCall(self._channels, method, codec, headers, receive, named)
        with self._room.share() as share:
            if not method.streams:
                return await call.unary(await posted(receive, headers, share))
            await call.stream(StreamReply(codec, headers, send, named), share)
            return None

    def _codec(self, method: DoorMethod, content_type: str) -> Codec:
        kind, _, parameters = content_type.lower().partition(";")
        kind, wanted = kind.strip(), _STREAM if method.streams else _UNARY
        charset = parameters.replace(" ", "").replace('"', "")
        codec = self._codecs.get(kind.removeprefix(wanted)) if kind.startswith(wanted) else None
        if codec is None or charset not in {"", "charset=utf-8"}:
            known = [f"{wanted}{name}" for name in self._codecs]
            kind_of_call = "takes or gives a stream" if method.streams else "is unary"
            raise ConnectError(
                "unknown",
                f"{method.path} {kind_of_call}: send content-type {' or '.join(known)}"
                f", not {content_type[:100] or 'none'}",
                status=415,
                headers={"accept-post": ", ".join(known)},
            )
        return codec


def error_response(error: ConnectError) -> Response:
    """An error as the protocol sends it."""
    response = JSONResponse(error.to_json(), error.status, error.headers)
    add_metadata(response.headers, error.leading, error.trailing)
    return response
