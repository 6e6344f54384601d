"""The process that browsers reach: the console at /console, MCP at /mcp, and the HTTP door.

    python -m hitherto_local.web

It reads HITHERTO_HTTP_LISTEN and the addresses of both services.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys

import uvicorn
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hitherto_client import Hitherto
from hitherto_client.command.serving import named_origins
from hitherto_client.console.app import make_app
from hitherto_client.console.target import ConsoleTarget
from hitherto_client.http_door.application import HttpDoor, build
from hitherto_client.listen_address import (
    ListenAddress,
    ListenRefused,
    check_openness,
    listen_address,
)
from hitherto_client.mcp_authorization import credential
from hitherto_client.mcp_server import McpOverHttp
from hitherto_client.web_server import web_server_config
from hitherto_local.starting import CONSOLE, DEFAULT_HTTP_LISTEN, HTTP_LISTEN, MCP
from hitherto_shared.config import SharedSettings
from hitherto_shared.lifeline import watch_starter
from hitherto_shared.telemetry import configure_logging

logger = logging.getLogger("hitherto.web")


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and log the port as the services do."""
        await super().startup(sockets)
        for server in self.servers:
            for one in server.sockets:
                logger.info("serving on port %d", one.getsockname()[1])
                return


class EveryDoor:
    """The console at `/console`, to which `/` leads, and MCP at `/mcp`; the rest is the door's."""

    def __init__(self, door: HttpDoor, console: ASGIApp, mcp: McpOverHttp) -> None:
        self._door = door
        self._console = console
        self._mcp = mcp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or begin and end."""
        path = scope.get("path", "")
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif path == "/":
            await RedirectResponse(CONSOLE)(scope, receive, send)
        elif path == CONSOLE or path.startswith(f"{CONSOLE}/"):
            await self._console({**scope, "root_path": CONSOLE}, receive, send)
        elif path.rstrip("/") == MCP:
            await self._mcp(scope, receive, send)
        else:
            await self._door(scope, receive, send)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begin and end with the console, which says when."""
        last: list[Message] = []

        async def close_first() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self._door.close()
            return message

        async def keep_last(message: Message) -> None:
            # Whoever hears it stops at once, and would cut off the end of MCP.
            if message["type"] == "lifespan.shutdown.complete":
                last.append(message)
            else:
                await send(message)

        async with self._mcp.running():
            await self._console(scope, close_first, keep_last)
        for message in last:
            await send(message)


def application(address: ListenAddress, *, open_to_all: bool) -> ASGIApp:
    """What is served.

    If `open_to_all`, nobody signs in: the services ask for no credential.

    Raises:
        ValueError: A file for TLS cannot be used.
    """
    target = ConsoleTarget(local=open_to_all, on_loopback=address.is_loopback)
    origins = named_origins()
    door = build(public_hosts=address.hosts(), origins=origins)
    mcp = McpOverHttp(
        Hitherto(token=credential.get),
        address.host,
        allowed_origins=origins,
        origins_by="HITHERTO_HTTP_ORIGINS",
    )
    return EveryDoor(door, make_app(target, address.hosts()), mcp)


def main() -> None:
    """Serve until stopped by a signal, or until the process that started this one is gone."""
    settings = SharedSettings()
    configure_logging("hitherto-web", settings.log_level, settings.log_format)
    watch_starter(sys.argv[1:], lambda: os.kill(os.getpid(), signal.SIGTERM))
    listen = os.environ.get(HTTP_LISTEN) or DEFAULT_HTTP_LISTEN
    retrieval = os.environ.get("HITHERTO_RETRIEVAL_LISTEN") or "127.0.0.1:0"
    try:
        address = listen_address(listen)
        open_to_all = settings.auth_mode(retrieval) == "off" and address.is_loopback
        check_openness(address, tls=False, allow_http=False, local=open_to_all, public=())
        app = application(address, open_to_all=open_to_all)
    except ListenRefused:
        sys.exit(
            f"{HTTP_LISTEN}: {listen} is no address on this machine alone, such as"
            f" {DEFAULT_HTTP_LISTEN}; beyond it, serve with `hitherto http --listen` and"
            " `hitherto console --listen`, which take certificates"
        )
    except ValueError as error:
        sys.exit(f"{HTTP_LISTEN}: {error}")
    _Server(web_server_config(app, address.host, address.port, has_own_log=True)).run()


if __name__ == "__main__":
    main()
