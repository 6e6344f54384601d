"""The credential of a request over HTTP, and where a client gets one.

The server is a resource server of OAuth 2.1: it passes tokens on to the services, which check them.
With authorization servers named, it publishes its metadata (RFC 9728), from which MCP clients find
out where their user signs in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar

from anyio import to_thread
from starlette.datastructures import URL, Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

METADATA = "/.well-known/oauth-protected-resource"
NO_CREDENTIAL = "none"
"""Sent for a credential where the services ask for none. It is no key of anybody."""
_REFUSAL = {
    "error": "send a credential of Hitherto: Authorization: Bearer KEY. None is needed on loopback"
    " where the services ask for none (HITHERTO_AUTH=off)"
}

credential: ContextVar[str] = ContextVar("credential")
"""The credential of the HTTP request at hand."""


def require_bearer(
    app: ASGIApp,
    authorization_servers: Sequence[str] = (),
    public_hosts: Sequence[str] = (),
    *,
    asks_for_none: Callable[[], bool],
) -> ASGIApp:
    """Answer 401 to requests without a credential; keep that of the others in `credential`.

    405 answers GET, which asks for a stream of the server's own messages. There are none, and
    whoever sends anything for a credential could hold such streams without end.

    Args:
        app: What serves requests with a credential.
        authorization_servers: Issuers of tokens, by URL. Without any there is no metadata.
        public_hosts: The first one is the host of the resource; it is reached with TLS. Unset: the
            host of each request.
        asks_for_none: Whether requests without a credential are served. It may call the services.
    """

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        if authorization_servers and _is_metadata(scope):
            told = {
                "resource": str(_resource(scope, public_hosts)),
                "authorization_servers": list(authorization_servers),
                "bearer_methods_supported": ["header"],
                "resource_name": "Hitherto",
            }
            await JSONResponse(told)(scope, receive, send)
            return
        token = _bearer(scope)
        if "authorization" not in Headers(scope=scope) and await to_thread.run_sync(asks_for_none):
            token = NO_CREDENTIAL
        if token is None:
            challenge = 'Bearer realm="hitherto"'
            if authorization_servers:
                resource = _resource(scope, public_hosts)
                metadata = resource.replace(path=METADATA + resource.path)
                challenge += f', resource_metadata="{metadata}"'
            refused = JSONResponse(_REFUSAL, 401, {"www-authenticate": challenge})
            await refused(scope, receive, send)
            return
        if scope["method"] == "GET":
            refused = JSONResponse({"error": "send messages with POST"}, 405, {"allow": "POST"})
            await refused(scope, receive, send)
            return
        before = credential.set(token)
        try:
            await app(scope, receive, send)
        finally:
            credential.reset(before)

    return checked


def _is_metadata(scope: Scope) -> bool:
    return scope["method"] == "GET" and scope["path"] in (METADATA, f"{METADATA}/mcp")


def _resource(scope: Scope, public_hosts: Sequence[str]) -> URL:
    """The URL under which clients know the server."""
    url = URL(scope=scope).replace(path="/mcp", query="")
    return url.replace(scheme="https", netloc=public_hosts[0]) if public_hosts else url


def _bearer(scope: Scope) -> str | None:
    given = Headers(scope=scope).getlist("authorization")
    if len(given) != 1:
        return None
    kind, _, token = given[0].partition(" ")
    token = token.strip()
    usable = token and token.isascii() and token.isprintable() and " " not in token
    return token if kind.lower() == "bearer" and usable else None
