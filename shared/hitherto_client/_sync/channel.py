# Generated from ../_async/channel.py by tools/unasync.py. Do not edit.
"""Channels: how a client connects to an address, and how stubs on it make their calls.

gRPC's own interceptors look every method up again at each call, and in grpcio 1.85 that ends the
process when another thread has closed the channel. Here the stubs' methods are made once.
"""

from __future__ import annotations

import functools
import ipaddress
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import grpc

from hitherto_client.calls import (
    Endpoint,
    Metadata,
    RetryPolicy,
    changes_nothing,
    default_seconds,
    with_idempotency_key,
)
from hitherto_client.errors import HithertoCallError, read_error
from hitherto_client.target import Target
from hitherto_client.tracing import CallSpan, current_span

Reply = TypeVar("Reply")

_OPTIONS: tuple[tuple[str, int], ...] = (
    # A page of 1,000 long memories is larger than gRPC's default of 4 MiB.
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # By default a channel waits up to two minutes before it looks for a restarted service.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Another client of this process must not pass its failed connections on to us.
    ("grpc.use_local_subchannel_pool", 1),
)


def open_channel(address: str, tls: grpc.ChannelCredentials | None) -> grpc.Channel:
    """A channel to `address`, encrypted if `tls` says how."""
    options = list(_OPTIONS)
    if _is_loopback(address):
        # An HTTP proxy of the environment is meant for the outside world.
        options.append(("grpc.enable_http_proxy", 0))
    if tls is None:
        return grpc.insecure_channel(address, options)
    return grpc.secure_channel(address, tls, options)


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost" or address.startswith("unix:"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def repeated(
    attempt: Callable[[float], Reply],
    endpoint: Endpoint,
    retry: RetryPolicy,
    seconds: float,
    *,
    repeatable: bool = True,
    request_id: str = "",
    failed: Callable[[HithertoCallError], None] | None = None,
) -> Reply:
    """What a call returns, which is made again where that is safe until its deadline nears.

    Args:
        attempt: Makes the call once; takes the seconds that are left.
        endpoint: Where the service is, for errors.
        retry: When it is repeated.
        seconds: For all attempts together.
        repeatable: It reads, or an idempotency key makes a repetition harmless.
        request_id: The id that it carries.
        failed: Told how each attempt failed.

    Raises:
        HithertoCallError: The last attempt's error.
    """
    deadline = time.monotonic() + seconds
    failures = 0
    while True:
        try:
            return attempt(max(deadline - time.monotonic(), 0.001))
        except grpc.RpcError as raised:
            error = read_error(
                raised, service=endpoint.service, address=endpoint.address, request_id=request_id
            )
            if failed is not None:
                failed(error)
            failures += 1
            wait = retry.wait_before_retry(error, failures, repeatable=repeatable)
            if wait is None or time.monotonic() + wait >= deadline:
                raise error from raised
        time.sleep(wait)


class CallingChannel:
    """A channel that adds to every call a deadline, the credential, ids, and safe retries.

    Calls with one request and one reply are repeated where that is safe and end with
    HithertoCallError. Streams are opened once and end with `grpc.RpcError`.
    """

    def __init__(self, channel: grpc.Channel, endpoint: Endpoint, target: Target) -> None:
        self._channel = channel
        self._endpoint = endpoint
        self._target = target

    def unary_unary(self, method: str, *args: Any, **options: Any) -> Any:
        once = self._channel.unary_unary(method, *args, **options)
        return functools.partial(self._make, method, once)

    def unary_stream(self, method: str, *args: Any, **options: Any) -> Any:
        return functools.partial(self._open, self._channel.unary_stream(method, *args, **options))

    def stream_unary(self, method: str, *args: Any, **options: Any) -> Any:
        return functools.partial(self._open, self._channel.stream_unary(method, *args, **options))

    def _make(
        self,
        method: str,
        once: Any,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata | None = None,
    ) -> Any:
        reads = changes_nothing(method)
        request = request if reads else with_idempotency_key(request)
        request_id, completed = self._complete(metadata)
        seconds = self._target.timeout if timeout is None else timeout
        if seconds is None:
            seconds = default_seconds(method, reads=reads)
        with CallSpan(method) as span:
            completed = (*completed, *span.metadata)
            return repeated(
                lambda left: once(request, timeout=left, metadata=completed),
                self._endpoint,
                self._target.retry,
                seconds,
                repeatable=reads or bool(getattr(request, "idempotency_key", "")),
                request_id=request_id,
                failed=span.failed,
            )

    def _open(
        self,
        once: Any,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata | None = None,
    ) -> Any:
        _, completed = self._complete(metadata)
        return once(request, timeout=timeout, metadata=(*completed, *current_span()))

    def _complete(self, given: Metadata | None) -> tuple[str, Metadata]:
        """The request id in force, and the caller's metadata with what it lacks."""
        metadata = list(given or ())
        named = dict(metadata)
        if self._target.credential is not None and "authorization" not in named:
            metadata.append(("authorization", f"Bearer {self._target.credential()}"))
        request_id = str(named.get("x-request-id") or uuid.uuid4())
        if "x-request-id" not in named:
            metadata.append(("x-request-id", request_id))
        return request_id, tuple(metadata)
