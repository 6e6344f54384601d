"""Web servers of the command: the address is held before anything is said to be served there."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from hitherto_client.command.output import FAILED, OK, Output

if TYPE_CHECKING:
    import uvicorn


def serve(
    host: str, port: int, make: Callable[[], uvicorn.Config], output: Output, told: str
) -> int:
    """Serve until Ctrl-C, or say why not; the exit code.

    `make` makes what is served, once the address is held. In `told`, `{}` stands for the address.
    """
    import uvicorn  # noqa: PLC0415 - an extra

    with ExitStack() as held:
        try:
            listening = [held.enter_context(each) for each in _listening(host, port)]
        except OSError as error:
            output.error(_refusal(error, host, port))
            return FAILED
        config = make()
        output.note(told.format(f"{_bracketed(host)}:{listening[0].getsockname()[1]}"))
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
