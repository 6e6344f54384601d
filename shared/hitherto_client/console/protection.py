"""What every request passes before any page, and what every reply carries."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    # With `no-referrer`, browsers would hide the origin of our own forms too.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-robots-tag": "noindex",
}
"""Sent with every reply, whatever it is."""


class Protection:
    """Refuses requests for other hosts, and completes replies.

    A page of another site can have its name resolve to this machine, and its scripts would then
    reach the console as their own. The host that the browser asks for gives this away.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        named = Headers(scope=scope).getlist("host")
        if len(named) != 1 or host_name(named[0]) not in self._hosts:
            refused = PlainTextResponse(
                "This console does not answer to this host name: "
                "`hitherto console` takes such names as --public-host.\n",
                421,
            )
            await refused(scope, receive, complete)
            return
        await self._app(scope, receive, complete)


def host_name(host: str) -> str:
    """The name in a Host header, without its port and brackets."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


def comes_from_here(request: Request) -> bool:
    """Whether a form was sent from our own pages, as far as the browser tells."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
