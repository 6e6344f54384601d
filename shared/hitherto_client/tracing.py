"""The span of a call, if the application uses OpenTelemetry; nothing is imported otherwise.

The application decides where spans go: the span is made by the tracer provider that it has set, and
the services continue its trace. Nothing of a request, a reply or an error's message is in the span.
"""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

import grpc

from hitherto_client.errors import HithertoCallError

_OPENTELEMETRY = "opentelemetry.trace"


class CallSpan:
    """A span around one call, its retries included.

    Args:
        method: Path of the RPC.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
