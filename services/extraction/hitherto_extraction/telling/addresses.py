"""Which addresses a webhook may have, so that nobody reaches this network through the service.

The name of a receiver is resolved once for each connection, and every address that it resolves to
is checked before the connection is made to one of these. A name whose answer changes in between
therefore leads nowhere else.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from hitherto_shared.offloading import Threads

_MAX_URL = 2048
OF_THIS_NETWORK = (
    "an address of this machine or of a private network (permitted with "
    "HITHERTO_WEBHOOK_PRIVATE=true)"
)
# Whoever runs the servers of a name decides how long it occupies a thread.
_threads = Threads("hitherto-names", 8, 0.25)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class AddressRefused(OSError):
    """A receiver is at an address that this installation does not send to."""

    def __init__(self) -> None:
        super().__init__("the address is of this machine or of a private network")


def why_not(url: str, *, private: bool) -> str | None:
    """What is wrong with the address of a webhook, or None; names are not resolved yet.

    `private`: whether addresses of private networks, and http, are permitted.
    """
    if len(url) > _MAX_URL:
        return f"must have at most {_MAX_URL} characters"
    try:
        parsed = URL(url)
        host = parsed.raw_host
        port = parsed.port
    except ValueError:
        return "must be an address such as https://example.com/hitherto"
    if parsed.scheme not in (("https", "http") if private else ("https",)) or not host or not port:
        if parsed.scheme == "http" and not private:
            return "must begin with https:// (http is permitted with HITHERTO_WEBHOOK_PRIVATE=true)"
        return "must be an address such as https://example.com/hitherto"
    if parsed.user is not None or parsed.password is not None:
        return "must not contain a user name or password: requests are signed"
    if not url.isprintable() or " " in url:
        return "must contain printable characters only"
    if is_literal(host) and not _is_complete(host):
        return "must write an address in full, such as https://192.0.2.1/hitherto"
    if not private and is_literal(host) and not is_public(host):
        return f"is {OF_THIS_NETWORK}"
    return None


def is_literal(host: str) -> bool:
    """Whether a host is an address and not a name.

    As the HTTP client decides, which asks no resolver about those: `127.1` is one too.
    """
    return ":" in host or host.replace(".", "").isdigit()


def _is_complete(address: str) -> bool:
    try:
        ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return True


def is_public(host: str) -> bool:
    """Whether an address is reached over the internet, and so not within this network."""
    if not _is_complete(host):
        return False
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        # Some IPv6 addresses stand for an IPv4 address, which is what is reached.
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(address.packed[-4:])
        if inner is not None:
            return is_public(str(inner))
        if address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


class CheckedResolver(AbstractResolver):
    """Resolves names as the system does, and refuses those with an address that is not public."""

    def __init__(self, *, private: bool) -> None:
        """A resolver; `private` permits every address."""
        self._private = private

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a name, which must be known, and all of them public."""
        found = await _threads.run(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM)
        addresses = [str(address[0]) for *_, address in found]
        if not self._private and not all(is_public(address) for address in addresses):
            raise AddressRefused
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=kind,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for (kind, *_), address in zip(found, addresses, strict=True)
        ]

    async def close(self) -> None:
        """Nothing is open."""


async def resolves_privately(host: str, *, timeout: float) -> bool:
    """Whether a name resolves to an address that is not public; False if it does not resolve."""
    try:
        async with asyncio.timeout(timeout):
            await CheckedResolver(private=False).resolve(host)
    except AddressRefused:
        return True
    except (OSError, TimeoutError, UnicodeError):
        return False
    return False
