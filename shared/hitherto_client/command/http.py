"""`hitherto http`: every RPC over HTTP with JSON."""

from __future__ import annotations

import argparse
import os

from hitherto_client.command.options import Argument, Repeated, Switch
from hitherto_client.command.output import Output, UsageError
from hitherto_client.command.rpc import Command
from hitherto_client.command.serving import serve

DEFAULT_LISTEN = "127.0.0.1:8090"


def _http(options: argparse.Namespace, output: Output) -> int:
    try:
        from hitherto_client.http_door.application import build, server_config  # noqa: PLC0415
        from hitherto_client.listen_address import (  # noqa: PLC0415
            ListenRefused,
            check_openness,
            listen_address,
        )
    except ModuleNotFoundError as error:
        raise UsageError(f"this command needs {error.name}: pip install 'hitherto[http]'") from None
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key belong together")
    if options.api_key:
        raise UsageError("every request carries its own credential: leave out --api-key")
    public = tuple(options.public_host)
    listen = options.listen or os.environ.get("HITHERTO_HTTP_LISTEN") or DEFAULT_LISTEN
    try:
        address = listen_address(listen)
        check_openness(
            address,
            tls=options.tls_certificate is not None,
            allow_http=options.allow_http,
            local=False,
            public=public,
        )
        door = build(
            options.retrieval,
            options.extraction,
            public_hosts=address.hosts(public),
            origins=(*options.allowed_origin, *named_origins()),
        )
    except (ListenRefused, ValueError) as error:
        raise UsageError(str(error)) from None
    scheme = "https" if options.tls_certificate else "http"
    return serve(
        address.host,
        address.port,
        lambda: server_config(door, address, options.tls_certificate, options.tls_key),
        output,
        f"every call over HTTP: {scheme}://{{}}; /docs describes them",
    )


def named_origins() -> tuple[str, ...]:
    """The web pages that `HITHERTO_HTTP_ORIGINS` names, separated by commas."""
    given = os.environ.get("HITHERTO_HTTP_ORIGINS", "")
    return tuple(each.strip() for each in given.split(",") if each.strip())


COMMANDS = (
    Command(
        "http",
        "Serve every RPC over HTTP with JSON, for curl, browsers and others without gRPC.",
        None,
        Argument(
            "--listen",
            f"where it is reached (default HITHERTO_HTTP_LISTEN, else {DEFAULT_LISTEN})",
            "HOST:PORT",
        ),
        Repeated("--public-host", "a host name by which others ask for it", "NAME"),
        Repeated(
            "--allowed-origin",
            "web pages that may call it, such as https://app.example.org, besides those of"
            " HITHERTO_HTTP_ORIGINS",
            "ORIGIN",
        ),
        Argument("--tls-certificate", "PEM file", "FILE"),
        Argument("--tls-key", "PEM file", "FILE"),
        Switch(
            "--allow-http",
            "listen beyond loopback without TLS, such as behind a proxy that adds it",
        ),
        run=_http,
    ),
)
