"""Which services the console calls, and for whom."""

from __future__ import annotations

import os
from dataclasses import dataclass

from hitherto_client._async.client import AsyncHitherto
from hitherto_client.console.rights import SignInRefused
from hitherto_client.target import find_endpoints


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
