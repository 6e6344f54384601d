"""Which kinds of jobs a worker claims: faults.md rows 11 and 20."""

from __future__ import annotations

from pathlib import Path

import pytest

from hitherto_extraction.queue.claims import ClaimLost
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_shared.database import room
from hitherto_shared.database.faults import full_disk
from hitherto_shared.database.room import RoomWatch
from tests.integration.queue.chat import CanaryChat
from tests.integration.queue.stage import TENANT, Stage, transcript
from tests.waiting import eventually


async def test_a_worker_leaves_kinds_of_a_newer_release_to_a_newer_worker(stage: Stage) -> None:
    """faults.md row 11: the job lives, and holds up nobody until that worker comes."""
    queue = JobQueue(4)
    async with stage.maintenance.connection() as connection:
        for user in ("ana", None):
            await queue.enqueue(connection, TENANT, "reconciliation", user_id=user)
    await stage.submit(transcript())
    await stage.worker(stage.finish).start()
    await eventually(lambda: done(stage, 1))
    assert await stage.states() == {"queued": 2, "succeeded": 1}
    assert await stage.rows("SELECT DISTINCT claim_no FROM jobs WHERE state = 'queued'") == [(0,)]
    await stage.worker(stage.finish, reconciliation=stage.finish).start()
    await eventually(lambda: done(stage, 3))


async def test_a_lost_job_of_a_newer_release_holds_up_nothing_after_going_back(
    stage: Stage,
) -> None:
    """faults.md rows 1 and 11: nobody left can run it, and its user's other jobs go on."""
    async with stage.maintenance.connection() as connection:
        await JobQueue(4).enqueue(connection, TENANT, "reconciliation", user_id="ana")
    (lost,) = await stage.claim()
    await stage.submit(transcript())
    await stage.worker(stage.finish).start()
    await stage.expire_leases()
    stage.signals.wake()
    await eventually(lambda: done(stage, 1))
    job = await stage.job(lost.job_id)
    assert (job["state"], job["attempt"], job["error"]) == ("queued", 1, "")
    with pytest.raises(ClaimLost):
        await stage.finish(lost)
    await stage.worker(stage.finish, reconciliation=stage.finish).start()
    await eventually(lambda: done(stage, 2))
    assert (await stage.job(lost.job_id))["attempt"] == 2


async def test_no_model_is_asked_while_the_disk_is_known_to_be_full(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """faults.md row 20 and L7: nothing could be written down. What makes room goes on."""
    health: list[bool] = []

    async def say(_: str, well: bool) -> None:
        health.append(well)

    async def told(well: bool) -> bool:
        return health[-1] is well

    watch = RoomWatch(stage.maintenance, say, tmp_path)
    monkeypatch.setattr(room, "_TRY_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(room, "_LITTLE_BYTES", 1 << 62)
    # Whatever happens here, no other test is to find it full.
    monkeypatch.setattr(full_disk, "is_full", False)
    await watch.start()
    try:
        await eventually(lambda: told(False))
        await stage.submit(transcript())
        async with stage.maintenance.connection() as connection:
            await JobQueue(4).enqueue(connection, TENANT, "retention")
        chat = CanaryChat()
        await stage.worker(stage.extraction(chat).run, retention=stage.finish).start()
        await eventually(lambda: done(stage, 1))
        assert (await stage.states(), chat.calls) == ({"queued": 1, "succeeded": 1}, 0)
        monkeypatch.setattr(room, "_LITTLE_BYTES", 0)
        await eventually(lambda: told(True))
    finally:
        await watch.stop()
    stage.signals.wake()
    await eventually(lambda: done(stage, 2))


async def done(stage: Stage, jobs: int) -> bool:
    """Whether so many jobs have succeeded."""
    return (await stage.states())["succeeded"] == jobs
