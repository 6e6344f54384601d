"""Spans by OpenTelemetry, exported by OTLP. Imported only if traces are on; see `tracing`.

The spans are made here and not by an instrumentation of gRPC or psycopg: to those, every RPC is a
stream (see `rpc.gateway`), statements have no names, and an error is recorded with its message,
which may quote what a user wrote.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from contextvars import Token

from opentelemetry import context, trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

Attributes = Mapping[str, AttributeValue]

_CLOSE_SECONDS = 3.0
"""Time for the last export; a collector that is away does not delay the end of the process."""
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_CALLERS_FAULT = frozenset(
    (
        *("OK", "CANCELLED", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS"),
        *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED"),
        *("OUT_OF_RANGE", "UNAUTHENTICATED"),
    )
)
"""Codes that are no errors of the server, by OpenTelemetry's conventions for RPCs."""

_PROPAGATOR = TraceContextTextMapPropagator()
"""It is given the header `traceparent` alone: `tracestate` and `baggage` are ignored."""


class OtelSpan:
    """A span that has begun."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: trace.Span, token: Token[context.Context] | None = None) -> None:
        self._span = span
        self._token = token

    def end(self, error: str = "", attributes: Attributes | None = None) -> None:
        """End the span; `error` is the type of what went wrong, or its reason."""
        if attributes:
            self._span.set_attributes(attributes)
        if error:
            self._span.set_attribute("error.type", error)
            if error not in _CALLERS_FAULT:
                self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
        if self._token is not None:
            context.detach(self._token)


class OtelTracer:
    """Makes spans. The spans of calls and jobs are the current ones of their task until they end.

    The other methods do nothing outside calls and jobs, and in those that are not sampled.
    """

    def __init__(self, service: str) -> None:
        named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        given = {"service.instance.id": f"{socket.gethostname()}:{os.getpid()}"}
        if not (named or os.environ.get("OTEL_SERVICE_NAME")):
            given[SERVICE_NAME] = service
        self._provider = TracerProvider(resource=Resource.create(given), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_exporter()))
        self._tracer = self._provider.get_tracer("hitherto")

    def call(self, method: str, traceparent: object, attributes: Attributes) -> OtelSpan:
        """Begin the span of a call, below that of its caller, if it sent one."""
        service, _, name = method.lstrip("/").partition("/")
        return self._begun(
            self._tracer.start_span(
                f"{service}/{name}",
                _context_of(traceparent),
                SpanKind.SERVER,
                {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name, **attributes},
            )
        )

    def job(self, kind: str, traceparent: str | None, attributes: Attributes) -> OtelSpan:
        """Begin the span of an attempt at a job: a new trace, linked to where it was queued."""
        queued = trace.get_current_span(_context_of(traceparent)).get_span_context()
        return self._begun(
            self._tracer.start_span(
                f"job {kind}",
                context.Context(),
                SpanKind.CONSUMER,
                {"hitherto.job.kind": kind, **attributes},
                [Link(queued)] if queued.is_valid else [],
            )
        )

    def wait(self, name: str, attributes: Attributes) -> OtelSpan | None:
        """Begin a span of what the current call or job waits for."""
        if not trace.get_current_span().is_recording():
            return None
        return OtelSpan(self._tracer.start_span(name, None, SpanKind.CLIENT, attributes))

    def event(self, name: str, attributes: Attributes) -> None:
        """Add an event to the current call or job."""
        trace.get_current_span().add_event(name, attributes)

    def traceparent(self) -> str | None:
        """The current span in the form of W3C Trace Context, to link to it later."""
        current = trace.get_current_span().get_span_context()
        if not current.is_valid:
            return None
        return f"00-{current.trace_id:032x}-{current.span_id:016x}-{current.trace_flags & 1:02x}"

    def ids(self) -> Mapping[str, str]:
        """The ids of the current span, for log lines."""
        current = trace.get_current_span().get_span_context()
        if not current.is_valid:
            return {}
        return {"trace_id": f"{current.trace_id:032x}", "span_id": f"{current.span_id:016x}"}

    def close(self) -> None:
        """Send what has not been sent, for a few seconds at most."""
        last = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        last.start()
        last.join(_CLOSE_SECONDS)

    def _begun(self, span: trace.Span) -> OtelSpan:
        return OtelSpan(span, context.attach(trace.set_span_in_context(span)))


def _exporter() -> SpanExporter:
    """The exporter of the protocol in the environment; it reads all other variables itself."""
    chosen = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), "grpc")
    if chosen == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter  # noqa: PLC0415

        return trace_exporter.OTLPSpanExporter()
    if chosen == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http import (  # noqa: PLC0415
            trace_exporter as http_exporter,
        )

        return http_exporter.OTLPSpanExporter()
    raise ValueError(f"OTEL_EXPORTER_OTLP_PROTOCOL={chosen}: use grpc or http/protobuf")


def _context_of(traceparent: object) -> context.Context:
    """A context with the span that a header of W3C Trace Context names, if it names one."""
    carrier = {"traceparent": traceparent} if isinstance(traceparent, str) else {}
    return _PROPAGATOR.extract(carrier, context.Context())
