"""Reserves a port for several processes, with a socket that is bound and never listens."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from hitherto_shared.rpc.server import addresses, cannot_listen, check_free


def usable_cores() -> int:
    """The cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def require_sharing(listen: str, variable: str) -> None:
    """Refuse several processes if they cannot share a port evenly.

    On systems other than Linux the option is missing, or one process gets all connections.

    Raises:
        ValueError: The text names the variable that requests them.
    """
    if sys.platform != "linux" or not hasattr(socket, "SO_REUSEPORT"):
        raise ValueError(
            f"{variable}: several processes can share a port on Linux only; set it to 1, and to "
            "use more cores run several services on separate ports"
        )
    if not listen.rpartition(":")[2].isdecimal() or listen.startswith(("unix:", "unix-abstract:")):
        raise ValueError(
            f"{variable}: several processes can share a port only, not {listen}; listen on "
            "host:port, or set it to 1"
        )


@contextmanager
def shared_port(listen: str) -> Iterator[str]:
    """Reserve a port for processes that will listen on it (0: any free one), and yield its address.

    Those that listen on it continue when it is released.

    Raises:
        ServerFailed: The port is in use.
    """
    host, _, port = listen.rpartition(":")
    with ExitStack() as sockets:
        try:
            # Without this, we could silently join other programs that share ports.
            check_free(listen)
            for family, kind, protocol, address in addresses(listen):
                kept = sockets.enter_context(socket.socket(family, kind, protocol))
                kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    kept.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                port = str(_bind(kept, (address[0], int(port), *address[2:])))
        except OSError as error:
            raise cannot_listen(listen, error) from None
        yield f"{host}:{port}"


def _bind(kept: socket.socket, address: tuple[Any, ...]) -> int:
    """Bind to an address on which nobody listens, and return the port."""
    try:
        kept.bind(address)
    except OSError:
        # An earlier process that did not share the port leaves closed connections behind, which
        # occupy it for a minute.
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(address)
    return int(kept.getsockname()[1])
