"""Where the console and the HTTP door listen, and what they refuse to do openly."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from hitherto_client.calls import is_loopback


class ListenRefused(ValueError):
    """A door must not listen like this; the message says what to add."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where browsers reach a console or a door."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for all addresses of the machine."""
        try:
            return ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def hosts(self, public: tuple[str, ...] = ()) -> tuple[str, ...]:
        """The names by which browsers may ask for it."""
        own = () if self.is_wildcard else (self.host,)
        local = ("localhost", "127.0.0.1", "::1") if self.is_loopback else ()
        return (*own, *local, *public)


def listen_address(text: str) -> ListenAddress:
    """The address in `HOST:PORT`."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port[:6]) > 65_535:
        raise ListenRefused("--listen should be HOST:PORT, such as 127.0.0.1:8090")
    return ListenAddress(host.strip("[]"), int(port))


def proxy_address(text: str) -> str:
    """The address of a proxy, or the network that it is in."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ListenRefused(
            "--proxy should be an IP address or a network, such as 10.0.0.7 or 10.0.0.0/24"
        ) from None
    if not network.prefixlen:
        raise ListenRefused(f"--proxy {text} would believe what anybody says of themselves")
    return str(network)


def check_openness(
    address: ListenAddress, *, tls: bool, allow_http: bool, local: bool, public: tuple[str, ...]
) -> None:
    """Refuse what would hand credentials or memories to others."""
    if address.is_loopback:
        return
    if local:
        raise ListenRefused("--local lets everybody in who reaches the console: loopback only")
    if not (tls or allow_http):
        raise ListenRefused(
            f"{address.host} is not a loopback address, so that credentials would cross the network"
            " in clear: add --tls-certificate and --tls-key, or --allow-http behind a proxy that"
            " adds TLS"
        )
    if address.is_wildcard and not public:
        raise ListenRefused(
            "name the host that browsers ask for with --public-host, such as memory.example.org"
        )
