"""Adds to every call a deadline, the credential, ids, and retries where they are safe."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import Message

from hitherto_client.errors import HithertoCallError, read_error

READ_SECONDS = 10.0
"""The default deadline of calls that change nothing, retries included."""
WRITE_SECONDS = 30.0
"""The default deadline of calls that change something, retries included."""
MODEL_SECONDS = 75.0
"""The default deadline of PreviewExtraction, which asks a language model."""

_RETRYABLE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
    }
)

Result = TypeVar("Result")

Metadata = Sequence[tuple[str, str | bytes]]

Credential = Callable[[], str]
"""Gives the API key or token to send with a call; asked once for each call."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When failed calls are retried, always within the deadline of the call.

    An error with RetryInfo is repeated until the deadline, after the time that the service names.
    One without, as when a connection breaks, is repeated `attempts` times at most, and only if the
    call reads or carries an idempotency key. An error in which the service gives a reason and no
    RetryInfo is final.
    """

    attempts: int = 4
    """How often a call is made at most, the first time included; 1 switches retries off."""
    first_wait: float = 0.2
    """Seconds before the second attempt; doubled for each one after that."""
    longest_wait: float = 5.0
    """Seconds that the wait grows to at most; RetryInfo may name a longer one."""

    def wait_before_retry(
        self, error: HithertoCallError, failures: int, *, repeatable: bool
    ) -> float | None:
        """Seconds to wait before the next attempt; None if there should be none.

        Args:
            error: How the last attempt ended.
            failures: How many attempts have failed, at least 1.
            repeatable: The call reads, or its idempotency key makes a repetition harmless.
        """
        if error.code not in _RETRYABLE or self.attempts <= 1:
            return None
        backoff = min(self.longest_wait, self.first_wait * 2.0 ** min(failures - 1, 30))
        # Clients that failed together should not come back together.
        backoff *= random.uniform(0.75, 1.25)
        if error.retry_after is not None:
            return max(error.retry_after, backoff)
        if error.reason or not repeatable or failures >= self.attempts:
            return None
        return backoff


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The target of a channel: the service's name for messages, and its address."""

    service: str
    address: str


class Calls:
    """How calls to one service are made; safe to use from several threads."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        credential: Credential | None,
        timeout: float | None,
        retry: RetryPolicy,
    ) -> None:
        self._endpoint = endpoint
        self._credential = credential
        self._timeout = timeout
        self._retry = retry

    def make(
        self,
        method: str,
        attempt: Callable[..., Result],
        request: Any,
        *,
        timeout: float | None,
        metadata: Metadata | None,
        **others: Any,
    ) -> Result:
        """Make the call, with safe retries, until it succeeds or its deadline nears.

        Args:
            method: Path of the RPC.
            attempt: Makes the call once; takes the request and gRPC's keyword arguments.
            request: The request; one that lacks an idempotency key gets one.
            timeout: Seconds for all attempts together. Unset: the default of the method.
            metadata: The caller's own.
            others: Further keyword arguments for gRPC.

        Raises:
            HithertoCallError: The last attempt's error.
        """
        reads = changes_nothing(method)
        request = request if reads else with_idempotency_key(request)
        repeatable = reads or bool(getattr(request, "idempotency_key", ""))
        request_id, metadata = self.complete(metadata)
        seconds = self._default_seconds(method, reads=reads) if timeout is None else timeout
        deadline = time.monotonic() + seconds
        failures = 0
        while True:
            remaining = max(deadline - time.monotonic(), 0.001)
            try:
                return attempt(request, timeout=remaining, metadata=metadata, **others)
            except grpc.RpcError as raised:
                error = read_error(
                    raised,
                    service=self._endpoint.service,
                    address=self._endpoint.address,
                    request_id=request_id,
                )
                failures += 1
                wait = self._retry.wait_before_retry(error, failures, repeatable=repeatable)
                if wait is None or time.monotonic() + wait >= deadline:
                    raise error from raised
            time.sleep(wait)

    def complete(self, given: Metadata | None) -> tuple[str, Metadata]:
        """The request id in force, and the caller's metadata with what it lacks."""
        metadata = list(given or ())
        named = dict(metadata)
        if self._credential is not None and "authorization" not in named:
            metadata.append(("authorization", f"Bearer {self._credential()}"))
        request_id = str(named.get("x-request-id") or uuid.uuid4())
        if "x-request-id" not in named:
            metadata.append(("x-request-id", request_id))
        return request_id, metadata

    def _default_seconds(self, method: str, *, reads: bool) -> float:
        if self._timeout is not None:
            return self._timeout
        if method.endswith("/PreviewExtraction"):
            return MODEL_SECONDS
        return READ_SECONDS if reads else WRITE_SECONDS


@lru_cache(maxsize=256)
def changes_nothing(method: str) -> bool:
    """True if the contract declares the RPC at this path free of side effects."""
    name = method.lstrip("/").replace("/", ".")
    try:
        found: Any = descriptor_pool.Default().FindMethodByName(name)
    except KeyError:
        return False
    level = found.GetOptions().idempotency_level
    return bool(level == descriptor_pb2.MethodOptions.NO_SIDE_EFFECTS)


def with_idempotency_key(request: Any) -> Any:
    """The request with a new idempotency key if it has a field for one and none is set."""
    if not isinstance(request, Message) or getattr(request, "idempotency_key", None) != "":
        return request
    # A copy: the caller may send the same object again and mean a new call.
    keyed: Any = type(request)()
    keyed.CopyFrom(request)
    keyed.idempotency_key = uuid.uuid4().hex
    return keyed
