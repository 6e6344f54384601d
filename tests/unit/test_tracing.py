"""When traces are on, what callers may send about theirs, and that off means no import."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from hitherto_shared import tracing
from hitherto_shared.otel_tracer import OtelTracer
from hitherto_shared.tracing import start_tracing, stop_tracing

PARENT = f"00-{32 * 'a'}-{16 * 'b'}"
NOBODY = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


def is_on() -> bool:
    start_tracing("test")
    on = tracing.tracer() is not None
    stop_tracing()
    return on


@pytest.mark.parametrize(
    ("environment", "on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY}, False),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
    ],
)
def test_the_standard_variables_switch_traces_on(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], on: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_on() is on
    assert tracing.tracer() is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon")],
)
def test_what_is_not_offered_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", NOBODY)
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name}={value}"):
        start_tracing("test")
    assert tracing.tracer() is None


def test_without_the_extra_the_remedy_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", NOBODY)
    monkeypatch.delitem(sys.modules, "hitherto_shared.otel_tracer")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with caplog.at_level(logging.WARNING):
        assert not is_on()
    assert "pip install 'hitherto[otel]'" in caplog.text


@pytest.fixture
def otel(monkeypatch: pytest.MonkeyPatch) -> OtelTracer:
    """Its spans go nowhere, because it is never closed and exports nothing within a test."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", NOBODY)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    return OtelTracer("test")


@pytest.mark.parametrize(
    ("given", "continued"),
    [
        (f"{PARENT}-01", True),
        (f"cc{PARENT[2:]}-01-what-the-future-brings", True),
        (f"ff{PARENT[2:]}-01", False),
        (f"00-{32 * '0'}-{16 * 'b'}-01", False),
        (f"{PARENT.upper()}-01", False),
        (PARENT, False),
        (b"00", False),
        (None, False),
    ],
)
def test_a_trace_of_the_caller_is_continued(
    otel: OtelTracer, given: object, continued: bool
) -> None:
    span = otel.call("/hitherto.v1.Tests/Call", given, {})
    told = otel.traceparent()
    assert told is not None
    assert told.endswith("-01")
    assert told.startswith(PARENT[:36]) is continued
    assert otel.ids()["trace_id"] == told.split("-")[1]
    span.end()
    assert (otel.traceparent(), otel.ids()) == (None, {})


def test_what_is_not_sampled_has_no_spans_of_waits(otel: OtelTracer) -> None:
    assert otel.wait("outside of calls and jobs", {}) is None
    call = otel.call("/hitherto.v1.Tests/Call", f"{PARENT}-00", {})
    assert otel.wait("people.user", {}) is None
    assert (otel.traceparent() or "").endswith("-00")
    call.end()
    call = otel.call("/hitherto.v1.Tests/Call", f"{PARENT}-01", {})
    wait = otel.wait("people.user", {})
    assert wait is not None
    wait.end("TimeoutError")
    call.end("NOT_FOUND", {"rpc.grpc.status_code": 5})


EVERYTHING = """
import importlib, pkgutil, sys
import hitherto_client, hitherto_client.command.run
import hitherto_extraction, hitherto_retrieval, hitherto_shared
for package in (hitherto_extraction, hitherto_retrieval, hitherto_shared):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith(("__main__", ".otel_tracer")):
            importlib.import_module(found.name)
from hitherto_shared.tracing import start_tracing
start_tracing("test")
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def test_nothing_is_imported_while_traces_are_off() -> None:
    told = subprocess.run(
        [sys.executable, "-c", EVERYTHING], capture_output=True, text=True, check=False
    )
    assert told.stdout.strip() == "[]", told.stderr[-2000:]
