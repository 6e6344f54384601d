"""The client: every call of the contract, typed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Self

from hitherto_client._async.changes import AsyncWatching
from hitherto_client._async.conversations import AsyncSessions
from hitherto_client._async.jobs import AsyncJobs
from hitherto_client._async.memories import AsyncMemories
from hitherto_client._async.privacy import AsyncPrivacy
from hitherto_client._async.profiles import AsyncProfiles
from hitherto_client._async.reads import AsyncProofs
from hitherto_client._async.upkeep import AsyncUpkeep
from hitherto_client.calls import RetryPolicy
from hitherto_client.target import find_target


class AsyncHitherto(
    AsyncProofs,
    AsyncMemories,
    AsyncProfiles,
    AsyncJobs,
    AsyncSessions,
    AsyncPrivacy,
    AsyncUpkeep,
    AsyncWatching,
):
    """An asynchronous client of both services. Close it, or use it as a context manager.

    Unset arguments come from the environment: HITHERTO_RETRIEVAL_ADDRESS (127.0.0.1:50051),
    HITHERTO_EXTRACTION_ADDRESS (127.0.0.1:50052), HITHERTO_API_KEY or HITHERTO_TOKEN (none),
    HITHERTO_TLS_CA_FILE (none: no TLS), and HITHERTO_TLS_CLIENT_CERTIFICATE_FILE with
    HITHERTO_TLS_CLIENT_KEY_FILE (none).

    Each call has a deadline, which its retries share (`timeout`: seconds), and is repeated where
    that is safe. A call that changes something takes an `idempotency_key`, unset: a new one. With
    the same key, the same call changes nothing twice, even from another process. Reads include what
    the same client has written for the user before, and what was learnt by jobs that it has seen
    end, even if reads go to a replica. A failed call raises HithertoCallError with a `reason`; a
    value that cannot be sent raises ValueError or TypeError.
    """

    def __init__(
        self,
        retrieval: str | None = None,
        extraction: str | None = None,
        *,
        api_key: str | None = None,
        token: str | Callable[[], str] | None = None,
        tls_ca_file: str | os.PathLike[str] | None = None,
        tls_certificate_file: str | os.PathLike[str] | None = None,
        tls_key_file: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        """Prepare the client; it connects with the first call.

        Args:
            retrieval: `host:port` of the retrieval service.
            extraction: `host:port` of the extraction service.
            api_key: The key that `hitherto keys create` printed.
            token: A JWT if the services accept tokens, or a function that returns one. It is called
                for every call, so it can return a new one before the old one ends.
            tls_ca_file: PEM file with the authority that signed the services' certificates.
            tls_certificate_file: PEM file with a client certificate, if the services ask for one.
            tls_key_file: PEM file with its private key.
            timeout: Seconds for every call, retries included. Unset: 10 for reads, 30 for writes.
            retry: When failed calls are retried.

        Raises:
            TypeError: `timeout` is no number.
            ValueError: The key, the token or a file for TLS is unusable, there are both key and
                token, or `timeout` leaves no time.
        """
        super().__init__(
            find_target(
                retrieval,
                extraction,
                api_key=api_key,
                token=token,
                tls_files=(tls_ca_file, tls_certificate_file, tls_key_file),
                timeout=timeout,
                retry=retry,
            )
        )

    @property
    def has_credential(self) -> bool:
        """Whether calls carry a credential."""
        return self._target.credential is not None

    async def close(self) -> None:
        """Close the channels; calls in flight are cancelled, and later ones raise ValueError."""
        with self._opening:
            self._closed = True
        if self._opened is not None:
            await self._opened.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
