"""Under which names a web server answers, to the pages of whom, and what every reply carries.

A web page may let its own name lead to a server on the visitor's machine or network. Such requests
carry the page's name as their host, or as their origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PORTS = {"http": 80, "https": 443}

Refuse = Callable[[int, str], Response]
"""Makes the answer of a status and a text."""


def _refused(status: int, told: str) -> Response:
    return JSONResponse({"error": told}, status)


class CompleteReplies:
    """Adds headers to every reply, and that none is stored unless the reply says so itself."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self._app = app
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, complete if scope["type"] == "http" else send)


class ExpectedAddress:
    """Answers 421 to requests for another host, and 403 to those of web pages of other origins.

    A page at another port of the same host is another one: any user of a machine can serve it.

    Others reach it under `public_hosts`, besides the names of loopback: a proxy with TLS in front
    of it may hide its own. `origins_by` is the option or variable that names `allowed_origins`, for
    those who are refused.
    """

    def __init__(
        self,
        app: ASGIApp,
        public_hosts: Sequence[str],
        allowed_origins: Sequence[str],
        refuse: Refuse = _refused,
        origins_by: str = "--allowed-origin",
    ) -> None:
        self._app = app
        self._refuse = refuse
        self._origins_by = origins_by
        self._hosts = {name.lower() for name in (*public_hosts, *LOOPBACK)}
        behind_proxy = (f"https://{name}" for name in public_hosts if name not in LOOPBACK)
        self._origins = {each.lower().rstrip("/") for each in (*allowed_origins, *behind_proxy)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, or refuse."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        if scope["type"] == "http" and scope["path"] != "/":
            # A redirection to the other form would name this side of a proxy, without TLS.
            scope = {**scope, "path": scope["path"].rstrip("/")}
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        given = Headers(scope=scope)
        host, origin = given.get("host", "").lower(), given.get("origin", "").lower()
        if without_port(host) not in self._hosts and host not in self._hosts:
            told = (
                f"this server is not known as {host[:253]}: "
                "`hitherto http` and `hitherto mcp` take such names as --public-host"
            )
            return self._refuse(421, told)
        own = _with_port(origin) == _with_port(f"{origin.partition('://')[0]}://{host}")
        if origin and origin not in self._origins and not own:
            told = (
                f"web pages of {origin[:253]} may not call this server: add this origin to "
                f"{self._origins_by}"
            )
            return self._refuse(403, told)
        return None


def _with_port(origin: str) -> str:
    """An origin with the port that its scheme implies, which a proxy may name or leave out."""
    scheme, _, host = origin.partition("://")
    has_port = without_port(host) != host.strip("[]")
    return origin if has_port else f"{origin}:{_PORTS.get(scheme, '')}"


def without_port(host: str) -> str:
    """The name of `host:port`; an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
