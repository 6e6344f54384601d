"""What is counted of a call, and the page that lists the metrics."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from hitherto_shared.metrics import REGISTRY, measured_model_call, tenant_label
from hitherto_shared.model_api import (
    ModelMisbehaved,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
    PromptTooLong,
)
from hitherto_shared.model_server import RequestRejected
from hitherto_shared.rpc.observed_call import ObservedCall
from tools.metrics_docs import METRICS, PAGE, page


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_the_page_lists_every_metric() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `make metrics-docs`"


def test_no_label_names_a_user_and_a_tenant_only_on_demand() -> None:
    labels = {label for metric in METRICS for label in metric._labelnames}
    assert labels == {
        "method", "code", "reason", "leg", "state", "result", "kind", "outcome", "direction",
        "check", "role", "database", "file", "limit", "effect", "subject", "stage", "tenant",
    }  # fmt: skip
    assert tenant_label("acme") == ""


def test_names_follow_the_conventions() -> None:
    """Prometheus: one prefix, base units, a suffix for the unit."""
    for metric in METRICS:
        (family,) = metric.describe()
        assert family.name.startswith("hitherto_")
        assert family.documentation.endswith(".")
        if family.type == "histogram":
            assert family.name.endswith("_seconds")


async def test_calls_are_counted_by_how_they_end() -> None:
    for error, code in [
        (None, "OK"),
        (asyncio.CancelledError(), "CANCELLED"),
        (grpc.aio.AbortError(), "NOT_FOUND"),
        (RuntimeError(), "UNKNOWN"),
    ]:
        labels = {"method": "Tests/Call", "code": code, "reason": ""}
        before, running = (
            counted("hitherto_rpcs_total", **labels),
            counted("hitherto_rpcs_in_progress"),
        )
        try:
            with ObservedCall(
                "/hitherto.v1.Tests/Call", "r-1", 3600.0, {}, traced=False
            ) as observed:
                assert counted("hitherto_rpcs_in_progress") == running + 1, error
                if code == "NOT_FOUND":
                    observed.code = code
                if error is not None:
                    raise error
        except BaseException as raised:
            if raised is not error:
                raise
        assert counted("hitherto_rpcs_total", **labels) == before + 1, error
        assert counted("hitherto_rpcs_in_progress") == running, error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ModelUnavailable("away"), "unavailable"),
        (ModelMisconfigured("wrong key", status=401), "misconfigured"),
        (ModelRefused("no"), "refused"),
        (RequestRejected("400", status=400, detail=""), "refused"),
        (PromptTooLong("long"), "refused"),
        (ModelMisbehaved("garbage"), "misbehaved"),
        (KeyError("a defect"), "failed"),
        (asyncio.CancelledError(), "cancelled"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_model_calls_are_counted_by_outcome(error: BaseException, outcome: str) -> None:
    labels = {"kind": "test", "outcome": outcome}
    before = counted("hitherto_model_calls_total", **labels)
    with pytest.raises(type(error)), measured_model_call("test", "a-model"):
        raise error
    assert counted("hitherto_model_calls_total", **labels) == before + 1
