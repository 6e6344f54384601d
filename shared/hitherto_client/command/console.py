"""`hitherto console`: what is remembered, on web pages."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hitherto_client.command.options import Argument, Switch
from hitherto_client.command.output import Output, UsageError
from hitherto_client.command.rpc import Command
from hitherto_client.command.serving import (
    ALLOW_HTTP,
    OF_SERVERS,
    address_to_serve,
    packages_of,
    refuse_credential,
    serve,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp

DEFAULT_LISTEN = "127.0.0.1:8090"


def _console(options: argparse.Namespace, output: Output) -> int:
    with packages_of("console"):
        from hitherto_client.console.app import make_app  # noqa: PLC0415
        from hitherto_client.console.target import ConsoleTarget  # noqa: PLC0415
    refuse_credential(
        options,
        "people sign in with credentials of their own: leave out --api-key, or set"
        " HITHERTO_API_KEY and add --local",
    )
    if options.user and not options.local:
        raise UsageError("--user needs --local")
    address = address_to_serve(options, options.listen, local=options.local)
    target = ConsoleTarget(
        options.retrieval,
        options.extraction,
        timeout=options.timeout,
        local=options.local,
        user=options.user,
        on_loopback=address.is_loopback,
    )

    def app() -> ASGIApp:
        try:
            return make_app(target, address.hosts(tuple(options.public_host)), options.sessions)
        except (OSError, ValueError) as error:
            raise UsageError(f"--sessions cannot be used: {error}") from None

    return serve(options, address, app, output, "the console: {}")


COMMANDS = (
    Command(
        "console",
        "Serve web pages on which people see and correct memories.",
        None,
        Argument(
            "--listen",
            f"where browsers reach it (default {DEFAULT_LISTEN})",
            "HOST:PORT",
            default=DEFAULT_LISTEN,
        ),
        Switch(
            "--local",
            "use the credential of the environment for everybody, without a sign-in; only on"
            " loopback",
        ),
        Argument("--user", "with --local: show this user only", "USER", default=""),
        *OF_SERVERS,
        ALLOW_HTTP,
        Argument(
            "--sessions",
            "keep sessions in this directory, sealed, so that they outlive a restart and several"
            " consoles share them",
            "DIR",
            type=Path,
        ),
        run=_console,
    ),
)
