"""Where the console listens, whom it calls, and what it refuses to do openly."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, replace

from hitherto_client._async.client import AsyncHitherto
from hitherto_client.console.rights import Rights, SignInRefused
from hitherto_client.target import find_endpoints


class ListenRefused(ValueError):
    """The console must not listen like this; the message says what to add."""


@dataclass(frozen=True, slots=True)
class ConsoleTarget:
    """The services behind the console, and how people get in."""

    retrieval: str | None = None
    """`host:port`; unset: from the environment."""
    extraction: str | None = None
    timeout: float | None = None
    local: bool = False
    """Nobody signs in: the credential of the environment is everybody's."""
    user: str = ""
    """With `local`, the only person that is shown; empty: all that the credential reaches."""
    on_loopback: bool = True
    """Only this machine can reach the console."""

    def identity(self) -> tuple[str, ...]:
        """What sessions are bound to: a credential goes to the services that it was given for."""
        retrieval, extraction = find_endpoints(self.retrieval, self.extraction)
        return (retrieval.address, extraction.address, str(self.local), self.user)

    def client(self, credential: str) -> AsyncHitherto:
        """A client with the credential of a sign-in form.

        Raises:
            SignInRefused: There is none, and others can reach the console.
            ValueError: It has characters that no credential has.
        """
        if self.local:
            return AsyncHitherto(self.retrieval, self.extraction, timeout=self.timeout)
        # An empty credential would be replaced by that of the environment.
        inherited = os.environ.get("HITHERTO_API_KEY") or os.environ.get("HITHERTO_TOKEN")
        if not credential and (inherited or not self.on_loopback):
            raise SignInRefused("Paste an API key or a token.")
        # A token is sent in the same way as a key, and an empty one counts as none.
        return AsyncHitherto(
            self.retrieval, self.extraction, api_key=credential, timeout=self.timeout
        )

    def bound(self, rights: Rights) -> Rights:
        """The rights, for the one person that is shown."""
        return replace(rights, person=self.user, everybody=False)


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where browsers reach the console."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

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
    """The address in `HOST:PORT`.

    Raises:
        ListenRefused: It is none.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port[:6]) > 65_535:
        raise ListenRefused("--listen should be HOST:PORT, such as 127.0.0.1:8090")
    return ListenAddress(host.strip("[]"), int(port))


def check_openness(
    address: ListenAddress, *, tls: bool, allow_http: bool, local: bool, public: tuple[str, ...]
) -> None:
    """Refuse what would hand credentials or memories to others.

    Raises:
        ListenRefused: The message says what to add or leave out.
    """
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
