"""The depth of the queue: in the metrics, and how often it is counted for the limit of a tenant."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from hitherto_extraction.queue.depth import QueueDepth
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.queue.limit import QueueLimit
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.metrics import REGISTRY
from tests.integration.queue.stage import TENANT, Stage, transcript


def shown(name: str, state: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"kind": "memory-extraction", "state": state})


async def test_jobs_are_counted_by_state_until_none_is_left(stage: Stage) -> None:
    depth = QueueDepth(stage.maintenance)
    await stage.submit(transcript(1, 1, user="ana"), transcript(1, 1, user="bo"))
    (held,) = await stage.claim(1)
    async with stage.admin.cursor() as cursor:
        await cursor.execute(
            "UPDATE hitherto.jobs SET created_at = created_at - interval '1 hour'"
            " WHERE state = 'queued'"
        )
    await depth.measure()
    assert shown("hitherto_jobs", "queued") == 1
    assert shown("hitherto_jobs", "running") == 1
    assert 3_600 <= (shown("hitherto_oldest_job_seconds", "queued") or 0) < 4_200
    assert (shown("hitherto_oldest_job_seconds", "running") or 0) < 600
    await stage.finish(held)
    (last,) = await stage.claim(1)
    await stage.finish(last)
    await depth.measure()
    for state in ("queued", "running"):
        assert shown("hitherto_jobs", state) == 0
        assert shown("hitherto_oldest_job_seconds", state) == 0


async def test_dead_jobs_are_counted_too(stage: Stage) -> None:
    await stage.submit(transcript(1, 1, user="ana"))
    await stage.admin.execute("UPDATE hitherto.jobs SET state = 'dead', finished_at = now()")
    await QueueDepth(stage.maintenance).measure()
    assert shown("hitherto_jobs", "dead") == 1


async def test_many_reconciliations_are_not_counted_by_every_call(
    stage: Stage, monkeypatch: Any
) -> None:
    """They do not count towards the limit, but counting reads them."""
    queue, limit = JobQueue(4), QueueLimit(10)
    counts = []
    fetch_rows = PipelineConnection.fetch_rows

    async def counted(*given: Any) -> Any:
        counts.append(given)
        return await fetch_rows(*given)

    async with stage.maintenance.connection() as connection:
        for _ in range(1_000):
            await queue.enqueue(
                connection,
                TENANT,
                "reconciliation",
                user_id="ana",
                params={"memory_id": str(uuid4())},
            )
        monkeypatch.setattr(PipelineConnection, "fetch_rows", counted)
        for _ in range(9):
            await limit.require(connection, TENANT)
    # Once, or again if a second has passed.
    assert len(counts) < 9
