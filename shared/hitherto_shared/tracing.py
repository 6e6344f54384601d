"""Spans of calls, jobs and what they wait for, if traces are switched on.

This module imports nothing of OpenTelemetry. While traces are off, `tracer()` is None, and a wait
costs one look at it. `otel_tracer` has the spans; the standard variables of OpenTelemetry switch it
on. No attribute of a span holds contents, users or credentials.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hitherto_shared.otel_tracer import OtelTracer

logger = logging.getLogger("hitherto.tracing")

Attributes = Mapping[str, str | int | float | bool]

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_INSTALL = "pip install 'hitherto[otel]'"

_tracers: list[OtelTracer] = []


def tracer() -> OtelTracer | None:
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
    """Switch traces on if the environment asks for it; OTEL_SERVICE_NAME may name the service.

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
    """Whether the standard variables ask for traces by OTLP; ValueError for another exporter."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = os.environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter not in ("", "none", "otlp"):
        raise ValueError(f"OTEL_TRACES_EXPORTER={exporter}: only otlp and none are supported")
    return exporter == "otlp" or (not exporter and any(os.environ.get(name) for name in _ENDPOINTS))
