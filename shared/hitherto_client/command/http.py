"""`hitherto http`: every RPC over HTTP with JSON."""

from __future__ import annotations

import argparse
import os

from hitherto_client.command.options import Argument, Repeated
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

DEFAULT_LISTEN = "127.0.0.1:8090"


def _http(options: argparse.Namespace, output: Output) -> int:
    with packages_of("http"):
        from hitherto_client.http_door.application import build  # noqa: PLC0415
    refuse_credential(options, "every request carries its own credential: leave out --api-key")
    listen = options.listen or os.environ.get("HITHERTO_HTTP_LISTEN") or DEFAULT_LISTEN
    address = address_to_serve(options, listen)
    try:
        door = build(
            options.retrieval,
            options.extraction,
            public_hosts=address.hosts(tuple(options.public_host)),
            origins=(*options.allowed_origin, *named_origins()),
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    told = "every call over HTTP: {}; /docs describes them"
    return serve(options, address, lambda: door, output, told)


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
        Repeated(
            "--allowed-origin",
            "web pages that may call it, such as https://app.example.org, besides those of"
            " HITHERTO_HTTP_ORIGINS",
            "ORIGIN",
        ),
        *OF_SERVERS,
        ALLOW_HTTP,
        run=_http,
    ),
)
