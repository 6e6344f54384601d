"""What every request passes before any page, and what every reply carries."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from hitherto_client.expected_address import CompleteReplies, without_port

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
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


def protected(app: ASGIApp, hosts: Iterable[str]) -> ASGIApp:
    """Refuses requests for other hosts, and completes replies.

    A page of another site can have its name resolve to this machine, and its scripts would then
    reach the console as their own. The host that the browser asks for gives this away.
    """
    known = frozenset(host.lower() for host in hosts)

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            named = Headers(scope=scope).getlist("host")
            if len(named) != 1 or without_port(named[0].strip().lower()) not in known:
                await _REFUSED(scope, receive, send)
                return
        await app(scope, receive, send)

    return CompleteReplies(checked, HEADERS)


_REFUSED = PlainTextResponse(
    "This console does not answer to this host name: "
    "`hitherto console` takes such names as --public-host.\n",
    421,
)


def comes_from_here(request: Request) -> bool:
    """Whether a form was sent from our own pages, as far as the browser tells."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
