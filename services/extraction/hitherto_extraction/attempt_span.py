"""The trace of one attempt at a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hitherto_extraction.queue.claims import Claim
from hitherto_shared import tracing
from hitherto_shared.work_record import current_record


@contextmanager
def span_of(held: Claim) -> Iterator[None]:
    """The span of an attempt, if traces are on."""
    tracer = tracing.tracer()
    if tracer is None:
        yield
        return
    about: tracing.Attributes = {
        "hitherto.job.id": str(held.job_id),
        "hitherto.job.attempt": held.attempt,
    }
    span = tracer.job(held.kind, held.trace_parent, about)
    outcome = "stopped"
    try:
        yield
        if (record := current_record()) is not None:
            outcome = record.outcome
    finally:
        at_fault = outcome not in ("succeeded", "lost", "stopped", "others_first")
        failed = outcome.upper() if at_fault else ""
        span.end(failed, {"hitherto.job.outcome": outcome})
