"""What every call gets: a deadline, an idempotency key, a span, and retries where they are safe."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import random
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self, overload

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

_LONGEST_SECONDS = 10 * 365 * 86_400.0

_RETRYABLE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.ABORTED,
        # gRPC itself drops a call that reaches a process which has just begun to stop. The caller's
        # own cancellation is an exception of another kind.
        grpc.StatusCode.CANCELLED,
    }
)

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

    def without_end(self) -> RetryPolicy:
        """The same with as many attempts as the deadline allows, unless retries are off."""
        return replace(self, attempts=sys.maxsize) if self.attempts > 1 else self

    def wait_before_retry(
        self, error: HithertoCallError, failures: int, *, repeatable: bool
    ) -> float | None:
        """Seconds to wait before the next attempt; None if there should be none.

        `failures` counts the failed attempts, at least 1. A call is `repeatable` if it reads, or
        its idempotency key makes a repetition harmless.
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

    def error(self, raised: Any, request_id: str = "") -> HithertoCallError:
        """The typed error of a call to it that failed."""
        return read_error(raised, service=self.service, address=self.address, request_id=request_id)

    @contextmanager
    def ended(self, request_id: str = "") -> Iterator[None]:
        """Around calls: one that ends because its connection is closed fails with an error.

        gRPC raises CancelledError then, as if the caller's task had been cancelled.
        """
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise HithertoCallError(
                grpc.StatusCode.CANCELLED,
                "the client was closed",
                service=self.service,
                address=self.address,
                request_id=request_id,
            ) from None

    def channel_options(self) -> list[tuple[str, int]]:
        """How a channel to it behaves."""
        # An HTTP proxy of the environment is meant for the outside world.
        host = self.address.rpartition(":")[0].strip("[]")
        here = is_loopback(host) or self.address.startswith("unix:")
        return [*_OPTIONS, *([("grpc.enable_http_proxy", 0)] if here else ())]


_OPTIONS: tuple[tuple[str, int], ...] = (
    # A page of 1,000 long memories is larger than gRPC's default of 4 MiB.
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    # By default a channel waits up to two minutes before it looks for a restarted service. The
    # minimum stays: it is also the time that connecting may take, which is longer across an ocean.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Another client of this process must not pass its failed connections on to us.
    ("grpc.use_local_subchannel_pool", 1),
)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it, as far as the name tells."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


Loop = asyncio.AbstractEventLoop | None


def loop_of(channel: Any) -> Loop:
    """The event loop that a channel belongs to; None if it is not tied to one."""
    if not isinstance(channel, grpc.aio.Channel):
        return None
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def check_loop(loop: Loop) -> None:
    """Check that a call is made on the loop of its channel.

    Raises:
        RuntimeError: It is not; gRPC would fail in ways that do not say so.
    """
    if loop is not None and loop is not asyncio.get_running_loop():
        raise RuntimeError(
            "this AsyncHitherto belongs to the event loop of its first call: make one for each "
            "loop, or call asyncio.run once"
        )


def default_seconds(method: str, *, reads: bool) -> float:
    """The deadline of a call to the RPC at this path, unless the caller has set one."""
    if method.endswith("/PreviewExtraction"):
        return MODEL_SECONDS
    return READ_SECONDS if reads else WRITE_SECONDS


@overload
def countable(seconds: float) -> float: ...
@overload
def countable(seconds: None) -> None: ...
def countable(seconds: float | None) -> float | None:
    """A time that a caller gave, as gRPC can count it: beyond ten years there is no difference.

    Raises:
        TypeError: It is no number.
        ValueError: It is NaN, or leaves no time.
    """
    if seconds is None:
        return None
    try:
        is_none = math.isnan(seconds)
    except TypeError:
        told = type(seconds).__name__
        raise TypeError(f"timeout should be a number of seconds, and is {told}") from None
    if is_none:
        raise ValueError("timeout should be a number of seconds, and is NaN")
    if seconds <= 0:
        raise ValueError(
            f"timeout should be more than 0 seconds, and is {seconds}: leave it out for the default"
        )
    return min(seconds, _LONGEST_SECONDS)


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


def complete(given: Metadata | None, credential: Credential | None) -> tuple[str, Metadata]:
    """The request id in force, and the caller's metadata with what it lacks."""
    metadata = list(given or ())
    named = dict(metadata)
    if credential is not None and "authorization" not in named:
        metadata.append(("authorization", f"Bearer {credential()}"))
    request_id = str(named.get("x-request-id") or uuid.uuid4())
    if "x-request-id" not in named:
        metadata.append(("x-request-id", request_id))
    return request_id, tuple(metadata)


_OPENTELEMETRY = "opentelemetry.trace"


class CallSpan:
    """A span around one call, its retries included, if the application uses OpenTelemetry.

    The application decides where spans go: its tracer provider makes the span, and the services
    continue its trace. Without OpenTelemetry, nothing is imported. Nothing of a request, a reply or
    an error's message is in the span.
    """

    __slots__ = ("_span", "_trace")

    def __init__(self, method: str) -> None:
        self._trace: Any = sys.modules.get(_OPENTELEMETRY)
        self._span: Any = None
        if self._trace is not None:
            service, _, name = method.lstrip("/").partition("/")
            self._span = self._trace.get_tracer("hitherto-client").start_span(
                f"{service}/{name}",
                kind=self._trace.SpanKind.CLIENT,
                attributes={"rpc.system": "grpc", "rpc.service": service, "rpc.method": name},
            )

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What tells the service about the span."""
        return () if self._span is None else _header(self._span.get_span_context())

    def failed(self, error: HithertoCallError) -> None:
        """Note how an attempt ended."""
        if self._span is not None:
            told = {"code": error.code.name, "reason": error.reason}
            self._span.add_event("attempt failed", told)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._span is None:
            return
        if error is not None:
            code = getattr(error, "code", None)
            told = code.name if isinstance(code, grpc.StatusCode) else type(error).__name__
            self._span.set_attribute("error.type", told)
            self._span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
        self._span.end()


def current_span() -> tuple[tuple[str, str], ...]:
    """The metadata that names the application's current span, for a stream; empty without one."""
    trace: Any = sys.modules.get(_OPENTELEMETRY)
    return () if trace is None else _header(trace.get_current_span().get_span_context())


def _header(span: Any) -> tuple[tuple[str, str], ...]:
    """A span in the form of W3C Trace Context."""
    if not span.is_valid:
        return ()
    sampled = span.trace_flags & 1
    return (("traceparent", f"00-{span.trace_id:032x}-{span.span_id:016x}-{sampled:02x}"),)
