"""Spans of calls, jobs and what they wait for, if traces are switched on.

This module imports nothing of OpenTelemetry. While traces are off, `tracer()` is None, and a wait
costs one look at it. `otel_tracer` has the spans; the standard variables of OpenTelemetry switch it
on. No attribute of a span holds contents, users or credentials.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Protocol

logger = logging.getLogger("hitherto.tracing")

Attributes = Mapping[str, str | int | float | bool]

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_INSTALL = "pip install 'hitherto[otel]'"


class TraceSpan(Protocol):
    """A span that has begun."""

    def end(self, error: str = "", attributes: Attributes | None = None) -> None:
        """End it.

        Args:
            error: The type of the error, or its reason; empty if there was none.
            attributes: What is known only now.
        """
        ...


class Tracer(Protocol):
    """Makes spans. The spans of calls and jobs are the current ones of their task until they end.

    The other methods do nothing outside calls and jobs, and in those that are not sampled.
    """

    def call(self, method: str, traceparent: object, attributes: Attributes) -> TraceSpan:
        """Begin the span of a call, below that of its caller, if it sent one."""
        ...

    def job(self, kind: str, traceparent: str | None, attributes: Attributes) -> TraceSpan:
        """Begin the span of an attempt at a job: a new trace, linked to where it was queued."""
        ...

    def wait(self, name: str, attributes: Attributes) -> TraceSpan | None:
        """Begin a span of what the current call or job waits for."""
        ...

    def event(self, name: str, attributes: Attributes) -> None:
        """Add an event to the current call or job."""
        ...

    def traceparent(self) -> str | None:
        """The current span in the form of W3C Trace Context, to link to it later."""
        ...

    def ids(self) -> Mapping[str, str]:
        """The ids of the current span, for log lines."""
        ...

    def close(self) -> None:
        """Send what has not been sent, for a few seconds at most."""
        ...


_tracers: list[Tracer] = []


def tracer() -> Tracer | None:
    """The tracer of this process; None while traces are off."""
    return _tracers[0] if _tracers else None


def event(name: str, attributes: Attributes) -> None:
    """Add an event to the span of the current call or job, if there is one."""
    if _tracers:
        _tracers[0].event(name, attributes)


def traceparent() -> str | None:
    """The current span in the form of W3C Trace Context, or None."""
    return _tracers[0].traceparent() if _tracers else None


def start_tracing(service: str) -> None:
    """Switch traces on if the environment asks for it.

    Args:
        service: The name of the service, unless OTEL_SERVICE_NAME gives another.

    Raises:
        ValueError: A variable has a value that cannot be used; the message names it.
    """
    if not _wanted():
        return
    try:
        from hitherto_shared.otel_tracer import OtelTracer  # noqa: PLC0415 - of the extra `otel`

        _tracers[:] = [OtelTracer(service)]
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        logger.warning("traces are off, because OpenTelemetry is not installed: %s", _INSTALL)
        return
    logger.info("traces are on")


def stop_tracing() -> None:
    """Send the last spans and switch traces off."""
    while _tracers:
        _tracers.pop().close()


def _wanted() -> bool:
    """Whether the standard variables ask for traces by OTLP.

    Raises:
        ValueError: They ask for another exporter.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter not in ("", "none", "otlp"):
        raise ValueError(f"OTEL_TRACES_EXPORTER={exporter}: only otlp and none are supported")
    return exporter == "otlp" or (not exporter and any(os.environ.get(name) for name in _ENDPOINTS))
