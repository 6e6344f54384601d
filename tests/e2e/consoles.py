"""A console over running services, and a person in front of it who has no browser."""

from __future__ import annotations

import asyncio
import html
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from hitherto_client.console.app import make_app
from hitherto_client.console.target import ConsoleTarget
from hitherto_client.listen_address import ListenAddress
from hitherto_client.web_server import ServedCertificate, web_server_config
from tests.certificates import Pair
from tests.e2e.conftest import Services

TIMEOUT = 60.0


def console_over(services: Services, **given: Any) -> AbstractAsyncContextManager[str]:
    """A console over these services; see `served`."""
    return served(ConsoleTarget(services.retrieval_address, services.extraction_address, **given))


@asynccontextmanager
async def served(
    target: ConsoleTarget, pair: Pair | None = None, sessions: Path | None = None
) -> AsyncIterator[str]:
    """A console on a free port of this machine, with TLS if there is a pair; its address."""

    def config(port: int) -> uvicorn.Config:
        return web_server_config(
            make_app(target, ListenAddress("127.0.0.1", port).hosts(), sessions),
            "127.0.0.1",
            port,
            ServedCertificate(str(pair.certificate), str(pair.key)) if pair else None,
        )

    async with web_server(config) as port:
        yield f"http{'s' if pair else ''}://127.0.0.1:{port}"


@asynccontextmanager
async def web_server(config: Callable[[int], uvicorn.Config]) -> AsyncIterator[int]:
    """A web server in this loop, on a free port of this machine, which it yields.

    Args:
        config: What serves at a port.
    """
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = uvicorn.Server(config(port))
        # Signals are pytest's.
        running = asyncio.create_task(server._serve(sockets=[listening]))
        try:
            while not server.started:
                assert not running.done()
                await asyncio.sleep(0.01)
            yield port
        finally:
            server.should_exit = True
            await running


class Visitor:
    """Follows links and sends forms, as a browser without scripts does."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.page = ""
        self.status = 0
        self.url = ""

    async def open(self, path: str) -> str:
        """A page; its HTML."""
        return self._keep(await self.http.get(path))

    async def send(self, path: str, **fields: Any) -> str:
        """Send a form of the current page, with its hidden fields."""
        return self._keep(await self.http.post(path, data={**self.hidden(path), **fields}))

    async def sign_in(self, credential: str, person: str = "") -> str:
        """Sign in and follow to the first page."""
        await self.open("/sign-in")
        return await self.send("/sign-in", credential=credential, person=person)

    def hidden(self, path: str) -> dict[str, str]:
        """The hidden fields of the form of the current page that leads to `path`."""
        forms = re.findall(r'<form method="post" action="([^"]*)".*?</form>', self.page, re.S)
        assert path.partition("?")[0] in forms, f"{self.url} has no form to {path}: {forms}"
        bodies = re.finditer(r'<form method="post" action="([^"]*)".*?</form>', self.page, re.S)
        body = next(one[0] for one in bodies if one[1] == path.partition("?")[0])
        found = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', body)
        return {name: html.unescape(value) for name, value in found}

    @property
    def text(self) -> str:
        """What the current page says, without its tags."""
        body = re.sub(r"(?s)<head>.*?</head>", "", self.page)
        return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))

    @property
    def forms(self) -> list[str]:
        """Where the forms of the current page lead that change something."""
        return re.findall(r'<form method="post" action="([^"]*)"', self.page)

    def _keep(self, reply: httpx2.Response) -> str:
        self.page, self.status, self.url = reply.text, reply.status_code, str(reply.url)
        return self.page


@asynccontextmanager
async def visitor(
    url: str, *, trusted: ssl.SSLContext | bool = True, **headers: str
) -> AsyncIterator[Visitor]:
    """Somebody new at a console."""
    async with httpx2.AsyncClient(
        base_url=url,
        follow_redirects=True,
        timeout=TIMEOUT,
        headers=headers,
        trust_env=False,
        verify=trusted,
        # Connections that the server is about to close are not used: it keeps idle ones for 5 s.
        limits=httpx2.Limits(keepalive_expiry=2),
    ) as http:
        yield Visitor(http)


@asynccontextmanager
async def signed_in(url: str, credential: str) -> AsyncIterator[Visitor]:
    """Somebody at a console who has signed in."""
    async with visitor(url) as person:
        await person.sign_in(credential)
        assert person.status == 200, person.text
        yield person
