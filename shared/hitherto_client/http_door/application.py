"""The door as an ASGI application, and the server that runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hitherto_client.expected_address import ExpectedAddress
from hitherto_client.http_door import pages
from hitherto_client.http_door.channels import DoorChannels
from hitherto_client.http_door.connect_error import ConnectError
from hitherto_client.http_door.incoming import FORWARDED, REQUEST_ID
from hitherto_client.http_door.methods import contract_services, methods_of, what_exists
from hitherto_client.http_door.rpc_endpoint import RpcEndpoint, error_response
from hitherto_client.listen_address import ListenAddress
from hitherto_client.target import find_endpoints, find_tls
from hitherto_client.web_server import web_server_config

_ASKED_HEADERS = (
    *FORWARDED,
    REQUEST_ID,
    "connect-protocol-version",
    "connect-timeout-ms",
    "connect-accept-encoding",
    "connect-content-encoding",
    "content-encoding",
    "content-type",
)
_TOLD_HEADERS = (REQUEST_ID, "retry-after", "connect-content-encoding")
_PREFLIGHT_SECONDS = 7200
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)
_NO_STORE = (b"cache-control", b"no-store")


class HttpDoor:
    """The door: an ASGI application that holds connections to both services."""

    def __init__(self, app: ASGIApp, channels: DoorChannels) -> None:
        self._app = app
        self._channels = channels

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append(_NO_STORE)
                message["headers"] = [*headers, *_HEADERS]
            await send(message)

        await self._app(scope, receive, complete)

    async def close(self) -> None:
        """Close the connections. Needed only where the application's lifespan is not run."""
        await self._channels.close()


def build(
    retrieval: str | None = None,
    extraction: str | None = None,
    *,
    public_hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
) -> HttpDoor:
    """The door in front of two services; it connects with the first request.

    It answers at `/hitherto.v1.SERVICE/METHOD`, `/openapi.json`, `/docs` and `/health`. Mount it
    wherever these paths should be; `close` it if its lifespan is not run.

    Args:
        retrieval: `host:port` of the retrieval service. Unset: from the environment, as are the
            files for TLS. A credential of the environment is not used: callers bring their own.
        extraction: `host:port` of the extraction service.
        public_hosts: Names under which others reach the door, besides those of loopback. Requests
            for other hosts are refused, so that no web page reaches it under a name of its own.
        origins: Web pages that may call it from a browser, such as `https://app.example.org`.

    Raises:
        ValueError: A file for TLS cannot be used.
    """
    methods = methods_of(contract_services())
    channels = DoorChannels(find_endpoints(retrieval, extraction), find_tls(), methods)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await channels.close()

    async def no_such_page(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, status = request.url.path[:200], error.status_code
        if status == 404:
            told = f"there is no {path}: {what_exists(methods, path)}"
            return error_response(ConnectError("unimplemented", told, status=status))
        allowed = sorted((error.headers or {}).get("Allow", "GET, HEAD").split(", "))
        told = f"{request.method} is not for {path}: it has {' and '.join(allowed)}"
        return error_response(
            ConnectError("unknown", told, status=status, headers={"allow": ", ".join(allowed)})
        )

    everything: ASGIApp = Starlette(
        routes=[Route("/{service}/{method}", RpcEndpoint(channels, methods)), *pages.ROUTES],
        exception_handlers={HTTPException: no_such_page, Exception: _broken},
        lifespan=lifespan,
    )
    if origins:
        everything = CORSMiddleware(
            everything,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=list(_ASKED_HEADERS),
            expose_headers=list(_TOLD_HEADERS),
            max_age=_PREFLIGHT_SECONDS,
        )
    # The variable is read by `hitherto up` too, which has no such option.
    guarded = ExpectedAddress(
        everything, public_hosts, origins, _refuse, origins_by="HITHERTO_HTTP_ORIGINS"
    )
    return HttpDoor(guarded, channels)


def _refuse(status: int, told: str) -> Response:
    return error_response(ConnectError("permission_denied", told, status=status))


async def _broken(request: Request, error: Exception) -> Response:
    return error_response(
        ConnectError("internal", "this is a fault of the HTTP door; its log says more")
    )


def server_config(
    door: HttpDoor,
    address: ListenAddress,
    certificate_file: str | None = None,
    key_file: str | None = None,
) -> uvicorn.Config:
    """What serves the door; arguments as for `web_server_config`."""
    return web_server_config(door, address.host, address.port, certificate_file, key_file)
