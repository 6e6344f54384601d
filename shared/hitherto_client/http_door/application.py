"""The door as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hitherto_client.expected_address import CompleteReplies, ExpectedAddress
from hitherto_client.http_door import pages
from hitherto_client.http_door.channels import DoorChannels
from hitherto_client.http_door.connect_error import ConnectError
from hitherto_client.http_door.incoming import FORWARDED, REQUEST_ID
from hitherto_client.http_door.methods import contract_methods, what_exists
from hitherto_client.http_door.rpc_endpoint import RpcEndpoint, error_response
from hitherto_client.target import find_endpoints, find_tls

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
_HEADERS = {
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
}


class HttpDoor:
    """The door: an ASGI application that holds connections to both services."""

    def __init__(self, app: ASGIApp, channels: DoorChannels) -> None:
        self._app = CompleteReplies(app, _HEADERS)
        self._channels = channels

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

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
    methods = contract_methods()
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
