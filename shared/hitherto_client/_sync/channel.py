# Generated from ../_async/channel.py by tools/unasync.py. Do not edit.
"""Channels: how a client connects to an address, and how stubs on it make their calls.

gRPC's own interceptors look every method up again at each call, and in grpcio 1.85 that ends the
process when another thread has closed the channel. Here the stubs' methods are made once.
"""

from __future__ import annotations

import ipaddress
import time
import uuid
from typing import Any, cast

import grpc

from hitherto_client.calls import (
    Credential,
    Endpoint,
    Metadata,
    RetryPolicy,
    changes_nothing,
    default_seconds,
    with_idempotency_key,
)
from hitherto_client.errors import read_error
from hitherto_client.tracing import CallSpan, current_span

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


class Calls:
    """Adds to every call to one service a deadline, the credential, ids, and safe retries."""

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

    def through(self, channel: grpc.Channel) -> grpc.Channel:
        """`channel` for stubs whose calls are made in this way.

        Calls with one request and one reply are repeated where that is safe and end with
        HithertoCallError. Streams are opened once and end with `grpc.RpcError`.
        """
        return cast(grpc.Channel, CallingChannel(channel, self))

    def make(
        self,
        method: str,
        attempt: Any,
        request: Any,
        *,
        timeout: float | None,
        metadata: Metadata | None,
    ) -> Any:
        """Make the call, with safe retries, until it succeeds or its deadline nears.

        Args:
            method: Path of the RPC.
            attempt: Makes the call once; takes the request and gRPC's keyword arguments.
            request: The request; one that lacks an idempotency key gets one.
            timeout: Seconds for all attempts together. Unset: the default of the method.
            metadata: The caller's own.

        Raises:
            HithertoCallError: The last attempt's error.
        """
        reads = changes_nothing(method)
        request = request if reads else with_idempotency_key(request)
        repeatable = reads or bool(getattr(request, "idempotency_key", ""))
        request_id, metadata = self.complete(metadata)
        seconds = self._timeout if timeout is None else timeout
        if seconds is None:
            seconds = default_seconds(method, reads=reads)
        deadline = time.monotonic() + seconds
        failures = 0
        with CallSpan(method) as span:
            metadata = (*metadata, *span.metadata)
            while True:
                remaining = max(deadline - time.monotonic(), 0.001)
                try:
                    return attempt(request, timeout=remaining, metadata=metadata)
                except grpc.RpcError as raised:
                    error = read_error(
                        raised,
                        service=self._endpoint.service,
                        address=self._endpoint.address,
                        request_id=request_id,
                    )
                    span.failed(error.code, error.reason)
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
        return request_id, tuple(metadata)


class CallingChannel:
    def __init__(self, channel: grpc.Channel, calls: Calls) -> None:
        self._channel = channel
        self._calls = calls

    def unary_unary(self, method: str, *args: Any, **options: Any) -> Any:
        return UnaryUnary(method, self._channel.unary_unary(method, *args, **options), self._calls)

    def unary_stream(self, method: str, *args: Any, **options: Any) -> Any:
        return Streaming(self._channel.unary_stream(method, *args, **options), self._calls)

    def stream_unary(self, method: str, *args: Any, **options: Any) -> Any:
        return Streaming(self._channel.stream_unary(method, *args, **options), self._calls)


class UnaryUnary:
    def __init__(self, method: str, once: Any, calls: Calls) -> None:
        self._method = method
        self._once = once
        self._calls = calls

    def __call__(
        self, request: Any, timeout: float | None = None, metadata: Metadata | None = None
    ) -> Any:
        return self._calls.make(
            self._method, self._once, request, timeout=timeout, metadata=metadata
        )


class Streaming:
    def __init__(self, once: Any, calls: Calls) -> None:
        self._once = once
        self._calls = calls

    def __call__(
        self, request: Any, timeout: float | None = None, metadata: Metadata | None = None
    ) -> Any:
        _, completed = self._calls.complete(metadata)
        return self._once(request, timeout=timeout, metadata=(*completed, *current_span()))
