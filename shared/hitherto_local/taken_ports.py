"""Whether an address can be listened on, and who has it if not."""

from __future__ import annotations

import socket

import psutil


def taken_by(address: str) -> str | None:
    """Who listens on `host:port`, in words; None if it is free, or 0 asks for any port.

    Addresses of other forms count as free: the service itself says what is wrong with them.
    """
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) == 0 or address.startswith("unix"):
        return None
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, OverflowError):
        return None
    for family, kind, protocol, _, place in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(place)
                probe.listen(1)
            except OSError:
                return _listener(int(port))
    return None


def _listener(port: int) -> str:
    try:
        connections = psutil.net_connections(kind="tcp")
        pid = next(
            each.pid
            for each in connections
            if each.status == psutil.CONN_LISTEN and each.laddr and each.laddr[1] == port
        )
        words = psutil.Process(pid).cmdline() if pid else []
    except (psutil.Error, StopIteration, OSError):
        return "another program"
    if not pid:
        return "another program"
    ours = next((word for word in words if word.startswith("hitherto")), "")
    name = f"another Hitherto ({ours})" if ours else " ".join(words)[:60] or "another program"
    return f"{name}, process {pid}"
