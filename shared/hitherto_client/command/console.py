"""`hitherto console`: what is remembered, on web pages."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hitherto_client.command.options import Argument, Repeated, Switch
from hitherto_client.command.output import Output, UsageError
from hitherto_client.command.rpc import Command
from hitherto_client.command.serving import serve

if TYPE_CHECKING:
    import uvicorn

DEFAULT_LISTEN = "127.0.0.1:8090"


def _console(options: argparse.Namespace, output: Output) -> int:
    try:
        from hitherto_client.console.app import server_config  # noqa: PLC0415
        from hitherto_client.console.target import ConsoleTarget  # noqa: PLC0415
        from hitherto_client.listen_address import (  # noqa: PLC0415
            ListenRefused,
            check_openness,
            listen_address,
        )
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this command needs {error.name}: pip install 'hitherto[console]'"
        ) from None
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key belong together")
    if options.api_key:
        raise UsageError(
            "people sign in with credentials of their own: leave out --api-key, or set"
            " HITHERTO_API_KEY and add --local"
        )
    if options.user and not options.local:
        raise UsageError("--user needs --local")
    public = tuple(options.public_host)
    try:
        address = listen_address(options.listen)
        check_openness(
            address,
            tls=options.tls_certificate is not None,
            allow_http=options.allow_http,
            local=options.local,
            public=public,
        )
    except ListenRefused as error:
        raise UsageError(str(error)) from None
    target = ConsoleTarget(
        options.retrieval,
        options.extraction,
        timeout=options.timeout,
        local=options.local,
        user=options.user,
        on_loopback=address.is_loopback,
    )

    def config() -> uvicorn.Config:
        try:
            return server_config(
                target,
                address,
                public_hosts=public,
                certificate_file=options.tls_certificate,
                key_file=options.tls_key,
                sessions=options.sessions,
            )
        except (OSError, ValueError) as error:
            raise UsageError(f"--sessions cannot be used: {error}") from None

    scheme = "https" if options.tls_certificate else "http"
    return serve(address.host, address.port, config, output, f"the console: {scheme}://{{}}")


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
        Repeated("--public-host", "a host name by which browsers ask for it", "NAME"),
        Argument("--tls-certificate", "PEM file", "FILE"),
        Argument("--tls-key", "PEM file", "FILE"),
        Switch(
            "--allow-http",
            "listen beyond loopback without TLS, such as behind a proxy that adds it",
        ),
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
