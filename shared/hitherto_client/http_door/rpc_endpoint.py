"""The one endpoint behind `/SERVICE/METHOD`: from an HTTP request to a call and back."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from hitherto_client.http_door.calls import (
    StreamReply,
    add_metadata,
    asked_for,
    call_stream,
    call_unary,
    posted,
)
from hitherto_client.http_door.channels import DoorChannels, DoorMethod, what_exists
from hitherto_client.http_door.codecs import Codec, JsonCodec
from hitherto_client.http_door.connect_error import ConnectError
from hitherto_client.http_door.incoming import REQUEST_ID, BodyRoom, ClientGone, request_id

logger = logging.getLogger("hitherto.http")

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
        if scope["method"] in {"GET", "HEAD"} and method.reads and not method.streams:
            with self._room.share() as share:
                codec, data = asked_for(scope, self._codecs, share)
                return await call_unary(
                    self._channels, method, codec, data, headers, receive, named
                )
        if scope["method"] != "POST":
            raise ConnectError(
                "unknown",
                f"call {method.path} with POST",
                status=405,
                headers={"allow": "GET, POST" if method.reads and not method.streams else "POST"},
            )
        codec = self._codec(method, headers.get("content-type", ""))
        with self._room.share() as share:
            if method.streams:
                reply = StreamReply(codec, headers, send, named)
                await call_stream(
                    self._channels, method, codec, headers, receive, reply, share, named
                )
                return None
            data = await posted(receive, headers, share)
            return await call_unary(self._channels, method, codec, data, headers, receive, named)

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
