"""Web servers of the command: their options, and an address that is held before they say it."""

from __future__ import annotations

import argparse
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from hitherto_client.command.options import Argument, Repeated, Switch
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.listen_address import (
    ListenAddress,
    ListenRefused,
    check_openness,
    listen_address,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp

OF_SERVERS = (
    Repeated("--public-host", "a host name by which others ask for it", "NAME"),
    Argument("--tls-certificate", "PEM file", "FILE"),
    Argument("--tls-key", "PEM file", "FILE"),
)
"""Options of a command that serves others."""
ALLOW_HTTP = Switch(
    "--allow-http", "listen beyond loopback without TLS, such as behind a proxy that adds it"
)


@contextmanager
def packages_of(extra: str) -> Iterator[None]:
    """For what imports packages of an extra.

    Raises:
        UsageError: They are not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this command needs {error.name}: pip install 'hitherto[{extra}]'"
        ) from None


def refuse_credential(options: argparse.Namespace, remedy: str) -> None:
    """Refuse half of a certificate, and a credential of the command's own.

    Raises:
        UsageError: There is one.
    """
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key belong together")
    if options.api_key:
        raise UsageError(remedy)


def address_to_serve(
    options: argparse.Namespace, listen: str, *, local: bool = False
) -> ListenAddress:
    """The address, if it may be served openly; see `check_openness`.

    Raises:
        UsageError: It may not, or is none.
    """
    try:
        address = listen_address(listen)
        check_openness(
            address,
            tls=options.tls_certificate is not None,
            allow_http=options.allow_http,
            local=local,
            public=tuple(options.public_host),
        )
    except ListenRefused as error:
        raise UsageError(str(error)) from None
    return address


def serve(
    options: argparse.Namespace,
    address: ListenAddress,
    make: Callable[[], ASGIApp],
    output: Output,
    told: str,
) -> int:
    """Serve until Ctrl-C, or say why not; the exit code.

    `make` makes what is served, once the address is held. In `told`, `{}` stands for the URL.
    """
    import uvicorn  # noqa: PLC0415 - an extra

    from hitherto_client.web_server import web_server_config  # noqa: PLC0415 - an extra

    host, port = address.host, address.port
    with ExitStack() as held:
        try:
            listening = [held.enter_context(each) for each in _listening(host, port)]
        except OSError as error:
            output.error(_refusal(error, host, port))
            return FAILED
        config = web_server_config(make(), host, port, options.tls_certificate, options.tls_key)
        scheme = "https" if options.tls_certificate else "http"
        at = f"{scheme}://{_bracketed(host)}:{listening[0].getsockname()[1]}"
        output.note(told.format(at))
        uvicorn.Server(config).run(listening)
    return OK


def _listening(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of the host, as a name may have several.

    Raises:
        OSError: It has none, or none can be listened on.
    """
    found: list[socket.socket] = []
    places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, _, _, _, place in dict.fromkeys(places):
        try:
            found.append(socket.create_server(place[:2], family=family))
        except OSError as error:
            # A name such as localhost may have an address that this machine lacks.
            if error.errno == errno.EADDRNOTAVAIL and (found or len(places) > 1):
                continue
            for each in found:
                each.close()
            raise
    if not found:
        raise OSError(errno.EADDRNOTAVAIL, "no address")
    return found


def _refusal(error: OSError, host: str, port: int) -> str:
    address = f"{_bracketed(host)}:{port}"
    if error.errno == errno.EADDRINUSE:
        return (
            f"{address} is taken, perhaps by `hitherto up`, which serves the console, HTTP and MCP:"
            f" use that, or choose another address, such as --listen {_bracketed(host)}:{port + 1}"
        )
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine: choose another one with --listen"
    return f"{address} cannot be listened on ({error.strerror}): choose another one with --listen"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
