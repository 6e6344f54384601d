"""Which processes `hitherto up` runs, in which environment, and who has their ports."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from hitherto_client.target import DEFAULT_EXTRACTION, DEFAULT_RETRIEVAL

HTTP_LISTEN = "HITHERTO_HTTP_LISTEN"
DEFAULT_HTTP_LISTEN = "127.0.0.1:8090"
CONSOLE = "/console"
"""The path of the console there."""
MCP = "/mcp"
"""That of the Model Context Protocol."""
DRAIN_SECONDS = 3.0
"""For calls that run when it ends."""

_METRICS = "HITHERTO_METRICS_LISTEN"
_OF_A_DEVELOPER = {
    # Somebody watches: a chat that pauses is read at once, and nothing holds up the end.
    "HITHERTO_EXTRACT_IDLE_MINUTES": "0.5",
    "HITHERTO_DRAIN_SECONDS": f"{DRAIN_SECONDS:g}",
    "HITHERTO_LOG_FORMAT": "json",
}
_EVERYWHERE = ("0.0.0.0", "[::]", "")


@dataclass(frozen=True, slots=True)
class Part:
    """One process."""

    name: str
    module: str
    variable: str
    """The setting with its address."""
    listen: str

    def reached_at(self, port: int) -> str:
        """Where this machine reaches it.

        Args:
            port: The one that it was given, where the setting leaves it open.
        """
        host, _, asked = self.listen.rpartition(":")
        if not asked.isdecimal():
            return self.listen
        return f"{'127.0.0.1' if host in _EVERYWHERE else host}:{port or asked}"

    @property
    def has_known_address(self) -> bool:
        """Whether its address is known before it serves."""
        return not self.listen.endswith(":0")


def parts(environment: Mapping[str, str]) -> tuple[Part, Part, Part]:
    """Both services and what browsers reach, where the environment puts them."""

    def part(name: str, module: str, variable: str, otherwise: str) -> Part:
        return Part(name, module, variable, environment.get(variable) or otherwise)

    return (
        part("extraction", "hitherto_extraction", "HITHERTO_EXTRACTION_LISTEN", DEFAULT_EXTRACTION),
        part("retrieval", "hitherto_retrieval", "HITHERTO_RETRIEVAL_LISTEN", DEFAULT_RETRIEVAL),
        part("console", "hitherto_local.web", HTTP_LISTEN, DEFAULT_HTTP_LISTEN),
    )


def environment_for(
    part: Part, environment: Mapping[str, str], addresses: Mapping[str, str]
) -> dict[str, str]:
    """The environment of a part: the given one, completed by what suits a developer's machine.

    A setting of `environment` wins; an empty one counts as unset. `addresses` tells where the
    services can be reached, by name.
    """
    own = _OF_A_DEVELOPER | {name: text for name, text in environment.items() if text}
    own[part.variable] = part.listen
    # The console calls these services, whatever others the environment names.
    own |= {f"HITHERTO_{name.upper()}_ADDRESS": address for name, address in addresses.items()}
    if metrics := metrics_of(environment).get(part.name):
        own[_METRICS] = metrics
    return own


def metrics_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Where each service shows its metrics: at the address that is set, and one port above."""
    listen = environment.get(_METRICS, "")
    host, _, port = listen.rpartition(":")
    if not port.isdecimal():
        return {}
    above = int(port) + 1 if int(port) else 0
    return {"retrieval": listen, "extraction": f"{host}:{above}"}


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
