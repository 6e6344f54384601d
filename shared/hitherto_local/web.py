"""The process that browsers reach: the console, in the place of whatever else speaks HTTP.

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
from starlette.types import ASGIApp

from hitherto_client.console.app import make_app
from hitherto_client.console.opening import (
    ConsoleTarget,
    ListenAddress,
    ListenRefused,
    check_openness,
    listen_address,
)
from hitherto_client.web_server import web_server_config
from hitherto_local.starting import DEFAULT_HTTP_LISTEN, HTTP_LISTEN
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


def application(address: ListenAddress, *, open_to_all: bool) -> ASGIApp:
    """What is served.

    Args:
        address: Where.
        open_to_all: Nobody signs in: the services ask for no credential.
    """
    target = ConsoleTarget(local=open_to_all, on_loopback=address.is_loopback)
    return make_app(target, address.hosts())


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
    except ListenRefused as error:
        sys.exit(f"{HTTP_LISTEN}: {error}")
    app = application(address, open_to_all=open_to_all)
    _Server(web_server_config(app, address.host, address.port, has_own_log=True)).run()


if __name__ == "__main__":
    main()
