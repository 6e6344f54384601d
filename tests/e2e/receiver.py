"""A receiver of webhooks on a port of its own, which misbehaves on request."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

Behaviour = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        """The body, read."""
        return json.loads(self.body)

    def signed_with(self, secret: str) -> bool:
        """Whether the signature is that of the secret, as the documentation says."""
        stamp, _, given = self.headers["Hitherto-Signature"].partition(",v1=")
        signed = stamp.removeprefix("t=").encode() + b"." + self.body
        made = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        return hmac.compare_digest(made, given)


async def accept(_: web.Request) -> web.StreamResponse:
    return web.Response(status=204)


async def fail(_: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text="no")


async def leave(_: web.Request) -> web.StreamResponse:
    return web.Response(status=410)


async def hang(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


async def redirect(request: web.Request) -> web.StreamResponse:
    """Send elsewhere: to this very receiver, which must not be called."""
    return web.Response(status=307, headers={"Location": str(request.url.with_path("/stolen"))})


async def answer_at_length(request: web.Request) -> web.StreamResponse:
    """Take it, with a body that never ends."""
    response = web.StreamResponse(status=200)
    await response.prepare(request)
    while True:
        await response.write(b"x" * 65536)
        await asyncio.sleep(0)


class Receiver:
    """Listens on loopback: `async with Receiver() as receiver`.

    Attributes:
        behave: How requests are answered.
        received: All of them, in order.
    """

    def __init__(self) -> None:
        self.behave: Behaviour = accept
        self.received: list[Received] = []
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/changes"

    async def __aenter__(self) -> Receiver:
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.received.append(Received(request.path, dict(request.headers), body))
        return await self.behave(request)
