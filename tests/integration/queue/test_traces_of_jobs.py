"""A job keeps the span of the call that queued it, however it was queued; without traces, none."""

from __future__ import annotations

import pytest

from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_shared import tracing
from hitherto_shared.otel_tracer import OtelTracer
from tests.integration.queue.stage import ANA, BOUND, TENANT, Stage, message, transcript


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> OtelTracer:
    """Traces are on; the collector is away, and within a test nothing is sent."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    made = OtelTracer("test")
    monkeypatch.setattr(tracing, "_tracers", [made])
    return made


async def queue_all(stage: Stage) -> None:
    """A job for a range of messages, one for appended messages, and one of another kind."""
    await stage.submit(transcript(1, 1, user="range"))
    await stage.intake(extract_every=1, debounce_seconds=0).append(
        ANA, "c1", [message(1)], None, timeout=BOUND
    )
    async with stage.write.connection() as connection:
        await JobQueue(1).enqueue(connection, TENANT, "decay")


async def test_every_way_to_queue_a_job_keeps_the_span(stage: Stage, tracer: OtelTracer) -> None:
    call = tracer.call("/hitherto.v1.Tests/Call", None, {})
    told = tracer.traceparent()
    await queue_all(stage)
    call.end()
    claimed = await stage.claim()
    assert len(claimed) == 3
    assert [held.trace_parent for held in claimed] == [told] * 3


async def test_without_traces_nothing_is_kept(stage: Stage) -> None:
    await queue_all(stage)
    assert [held.trace_parent for held in await stage.claim()] == [None] * 3
