"""The depth of the queue in the metrics."""

from __future__ import annotations

from hitherto_extraction.queue.depth import QueueDepth
from hitherto_shared.metrics import REGISTRY
from tests.integration.queue.stage import Stage, transcript


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
