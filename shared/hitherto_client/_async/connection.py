"""A connection to both services: their generated stubs over channels that make calls safe.

gRPC's own interceptors look every method up again at each call, and in grpcio 1.85 that ends the
process when another thread has closed the channel. Here the stubs' methods are made once.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, cast

import grpc
from google.protobuf import message_factory

from hitherto.v1.extraction_service_pb2_grpc import ExtractionServiceStub
from hitherto.v1.maintenance_service_pb2_grpc import MaintenanceServiceStub
from hitherto.v1.memory_service_pb2_grpc import MemoryServiceStub
from hitherto.v1.privacy_service_pb2_grpc import PrivacyServiceStub
from hitherto.v1.retrieval_service_pb2_grpc import RetrievalServiceStub
from hitherto.v1.session_service_pb2_grpc import SessionServiceStub
from hitherto_client.batches import Progress, settle, windows
from hitherto_client.calls import (
    CallSpan,
    Endpoint,
    Metadata,
    RetryPolicy,
    changes_nothing,
    check_loop,
    complete,
    countable,
    current_span,
    default_seconds,
    loop_of,
    with_idempotency_key,
)
from hitherto_client.declared import RPCS
from hitherto_client.errors import HithertoCallError
from hitherto_client.target import Target

Reply = TypeVar("Reply")


class AsyncConnection:
    """The stubs of every RPC of the contract.

    Each call carries a deadline, the credential, a request id and, if it changes something, an
    idempotency key, is repeated where that is safe, and ends with HithertoCallError.
    """

    def __init__(self, target: Target) -> None:
        """Prepare the channels; they connect with the first call."""
        self.target = target
        self.channels: dict[str, grpc.aio.Channel] = {}
        """The bare channel to each service, by its name."""
        reads = self._connect(target.retrieval)
        writes = self._connect(target.extraction)
        self.retrieval = RetrievalServiceStub(reads)
        self.extraction = ExtractionServiceStub(writes)
        self.memories = MemoryServiceStub(writes)
        self.sessions = SessionServiceStub(writes)
        self.maintenance = MaintenanceServiceStub(writes)
        self.privacy = PrivacyServiceStub(writes)

    def _connect(self, endpoint: Endpoint) -> grpc.aio.Channel:
        channel = open_channel(endpoint, self.target.tls)
        self.channels[endpoint.service] = channel
        return cast(grpc.aio.Channel, AsyncCallingChannel(channel, endpoint, self.target))

    async def close(self) -> None:
        """Close the channels; calls in flight fail with CANCELLED."""
        for channel in self.channels.values():
            await channel.close()


def open_channel(endpoint: Endpoint, tls: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
    """A channel to a service, encrypted if `tls` says how."""
    if tls is None:
        return grpc.aio.insecure_channel(endpoint.address, endpoint.channel_options())
    return grpc.aio.secure_channel(endpoint.address, tls, endpoint.channel_options())


class AsyncCallingChannel:
    """A channel that adds to every call a deadline, the credential, ids, and safe retries.

    Calls with one request and one reply are repeated where that is safe and end with
    HithertoCallError. Streams are opened once and end with `grpc.RpcError`.
    """

    def __init__(self, channel: grpc.aio.Channel, endpoint: Endpoint, target: Target) -> None:
        self._channel = channel
        self._loop = loop_of(channel)
        self._endpoint = endpoint
        self._target = target

    def unary_unary(self, method: str, *args: Any, **options: Any) -> Any:
        once = self._channel.unary_unary(method, *args, **options)
        return functools.partial(self._make, method, once)

    def unary_stream(self, method: str, *args: Any, **options: Any) -> Any:
        return functools.partial(self._open, self._channel.unary_stream(method, *args, **options))

    def stream_unary(self, method: str, *args: Any, **options: Any) -> Any:
        return functools.partial(self._open, self._channel.stream_unary(method, *args, **options))

    async def _make(
        self,
        method: str,
        once: Any,
        request: Any,
        timeout: float | None = None,
        metadata: Metadata | None = None,
    ) -> Any:
        check_loop(self._loop)
        reads = changes_nothing(method)
        request = request if reads else with_idempotency_key(request)
        request_id, completed = complete(metadata, self._target.credential)
        seconds = self._target.timeout if timeout is None else countable(timeout)
        if seconds is None:
            seconds = default_seconds(method, reads=reads)
        with CallSpan(method) as span:
            completed = (*completed, *span.metadata)
            return await repeated(
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
        check_loop(self._loop)
        _, completed = complete(metadata, self._target.credential)
        return once(request, timeout=countable(timeout), metadata=(*completed, *current_span()))


async def repeated(
    attempt: Callable[[float], Awaitable[Reply]],
    endpoint: Endpoint,
    retry: RetryPolicy,
    seconds: float,
    *,
    repeatable: bool = True,
    request_id: str = "",
    failed: Callable[[HithertoCallError], None] | None = None,
    taken: Callable[[], bool] = lambda: False,
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
        taken: Whether the service has taken a part. If it goes then, it comes back: only the time
            bounds the attempts.

    Raises:
        ValueError: There is no time for any attempt.
        HithertoCallError: The last attempt's error.
    """
    countable(seconds)
    deadline = time.monotonic() + seconds
    failures = 0
    while True:
        try:
            with endpoint.ended(request_id):
                return await attempt(max(deadline - time.monotonic(), 0.001))
        except grpc.RpcError as raised:
            error = endpoint.error(raised, request_id)
            if failed is not None:
                failed(error)
            failures += 1
            bounds = retry.without_end() if taken() else retry
            wait = bounds.wait_before_retry(error, failures, repeatable=repeatable)
            if wait is None or time.monotonic() + wait >= deadline:
                raise error from raised
        await asyncio.sleep(wait)


async def stream(
    connection: AsyncConnection,
    name: str,
    requests: Iterable[tuple[int, Any]],
    *,
    progress: Callable[[Progress], None] | None,
    timeout: float,
    away: Callable[[HithertoCallError], None] | None = None,
) -> Any:
    """Import items, and return the sum of the replies.

    Args:
        connection: To the services.
        name: The RPC, of a stream of requests and one reply.
        requests: An item each, with its idempotency key; before it, the place that errors name.
        progress: Called with the progress after every window.
        timeout: Seconds for each window, its retries included.
        away: Told how an attempt failed while a service that took a window is waited for.

    Raises:
        HithertoCallError: A window was not taken whole, within the time; the first one, within the
            attempts of the client too.
    """
    target = connection.target
    retry = target.retry
    stub, method = RPCS[name]
    call = getattr(getattr(connection, stub), name)
    total = message_factory.GetMessageClass(method.output_type)()
    hear: Callable[[HithertoCallError], None] | None = None
    for window in windows(requests):

        def attempt(left: float, sent: list[Any] = window.requests) -> Any:
            return call(iter(sent), timeout=left)

        reply = await repeated(attempt, target.extraction, retry, timeout, failed=hear)
        if retry.attempts > 1:
            # A service that took a window comes back, if it goes: only the time bounds the wait.
            retry, hear = retry.without_end(), away
        made = settle(total, reply, window)
        if progress is not None:
            progress(made)
    return total
