"""Who may go before whom: requirement B5, and B14 where a job waits for money."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from hitherto_extraction.queue import attempts, claims, collecting, waking
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.queue.enqueueing import JobQueue
from tests.integration.queue.stage import ANA, KINDS, TENANT, Stage, transcript
from tests.waiting import eventually


async def queued(stage: Stage, kind: str, *, user: str | None = "ana", later: bool = False) -> UUID:
    """A job of any kind, due at once or only in an hour."""
    async with stage.maintenance.connection() as connection:
        job = await JobQueue(4).enqueue(connection, TENANT, kind, user_id=user)
    if later:
        await stage.rows(
            "UPDATE jobs SET state = 'failed', run_after = now() + interval '1 hour'"
            " WHERE job_id = %s",
            job.job_id,
        )
    return job.job_id


async def claimed(
    stage: Stage,
    *,
    limit: int = 10,
    tenant_wide: int | None = None,
    resting: tuple[tuple[str, str], ...] = (),
) -> list[Claim]:
    async with stage.maintenance.connection() as connection:
        found = await claims.claim(
            connection,
            worker="test",
            kinds=KINDS,
            limit=limit,
            lease_seconds=60,
            tenant_wide=tenant_wide,
            resting=resting,
        )
    return sorted(found, key=lambda held: str(held.job_id))


@pytest.mark.parametrize("kind", ["consolidation", "decay", "retention"])
async def test_b14_upkeep_that_waits_holds_up_no_extraction(stage: Stage, kind: str) -> None:
    await queued(stage, kind, later=True)
    await stage.submit(transcript())
    (held,) = await claimed(stage)
    assert held.kind == "memory-extraction"


async def test_b14_upkeep_that_rests_holds_up_no_extraction(stage: Stage) -> None:
    """It is due, but its tenant has no budget for it."""
    paused = await queued(stage, "consolidation")
    await stage.submit(transcript())
    (held,) = await claimed(stage, resting=((TENANT, "consolidation"),))
    assert held.kind == "memory-extraction"
    await stage.finish(held)
    assert await claimed(stage, resting=((TENANT, "consolidation"),)) == []
    (held,) = await claimed(stage, resting=(("other", "consolidation"),))
    assert held.job_id == paused


async def test_b5_of_what_is_due_the_older_goes_first_and_alone(stage: Stage) -> None:
    first = await queued(stage, "consolidation")
    await stage.submit(transcript())
    (held,) = await claimed(stage)
    assert held.job_id == first
    assert await claimed(stage) == []
    await stage.finish(held)
    (held,) = await claimed(stage)
    assert held.kind == "memory-extraction"


async def test_b5_an_extraction_that_waits_for_its_retry_is_not_overtaken(stage: Stage) -> None:
    """What the user said is read in the order in which it was said; upkeep need not wait for it."""
    await stage.submit(transcript())
    await stage.rows("UPDATE jobs SET run_after = now() + interval '1 hour'")
    upkeep = await queued(stage, "consolidation")
    await stage.submit(transcript(conversation="c2"))
    await queued(stage, "document-ingestion")
    (held,) = await claimed(stage)
    assert held.job_id == upkeep
    await stage.finish(held)
    assert await claimed(stage) == []


async def test_b5_upkeep_behind_waiting_upkeep_is_not_starved(stage: Stage) -> None:
    await queued(stage, "consolidation", later=True)
    second = await queued(stage, "consolidation")
    (held,) = await claimed(stage)
    assert held.job_id == second


async def test_b5_jobs_of_a_tenant_have_places_of_their_own(stage: Stage) -> None:
    wide = [await queued(stage, kind, user=None) for kind in ("reembedding", "decay", "retention")]
    await stage.submit(transcript(), transcript(user="bo"))
    found = await claimed(stage, limit=2, tenant_wide=1)
    assert {held.user_id for held in found} == {None, "ana", "bo"}
    assert {held.job_id for held in found} & set(wide) == {wide[0]}
    (held,) = await claimed(stage, limit=0, tenant_wide=1)
    assert held.job_id == wide[1]
    assert await claimed(stage, limit=2, tenant_wide=0) == []


async def test_b5_a_long_job_of_a_tenant_holds_up_no_user(stage: Stage) -> None:
    """A worker with a single place for users, and a change of model that takes forever."""
    hanging = await queued(stage, "reembedding", user=None)
    await queued(stage, "reembedding", user=None)
    worker = stage.worker(stage.finish, concurrency=1, reembedding=_forever)
    await worker.start()
    await eventually(lambda: _state(stage, hanging, "running"))
    await stage.submit(transcript(), transcript(user="bo"))
    await eventually(lambda: _succeeded(stage, 2))
    assert (await stage.states()) == {"running": 1, "queued": 1, "succeeded": 2}
    await worker.stop(0.0)
    assert (await stage.job(hanging))["attempt"] == 0


async def test_started_at_is_when_the_last_attempt_began(stage: Stage) -> None:
    await stage.submit(transcript())
    (held,) = await claimed(stage)
    first = (await stage.job(held.job_id))["started_at"]
    async with stage.maintenance.connection() as connection:
        await attempts.release(connection, held)
    (held,) = await claimed(stage)
    assert (await stage.job(held.job_id))["started_at"] > first


async def _forever(held: Claim) -> None:
    await asyncio.Event().wait()


async def _state(stage: Stage, job_id: UUID, state: str) -> bool:
    return bool((await stage.job(job_id))["state"] == state)


async def _succeeded(stage: Stage, number: int) -> bool:
    return (await stage.states())["succeeded"] == number


async def test_row_1_a_lease_that_goes_on_is_not_reclaimed(stage: Stage) -> None:
    """However little of it is left, and whatever its length was."""
    await stage.submit(transcript())
    (held,) = await stage.claim()
    for left in ("55 seconds", "20 seconds", "5 seconds"):
        await stage.rows(
            "UPDATE jobs SET lease_until = clock_timestamp() + %s::interval WHERE job_id = %s",
            left,
            held.job_id,
        )
        assert await stage.claim() == [], left
    await stage.expire_leases()
    (again,) = await stage.claim()
    assert again.job_id == held.job_id


async def test_b5_a_message_does_not_overtake_a_document_that_waits(stage: Stage) -> None:
    """Nor a document a message: what a user said and sent is learnt in the order it came."""
    for kind, user in (("document-ingestion", "ana"), ("memory-extraction", "bo")):
        if kind == "document-ingestion":
            async with stage.maintenance.connection() as connection:
                await JobQueue(4).enqueue(connection, TENANT, kind, user_id=user)
        else:
            await stage.submit(transcript(user=user))
    await stage.rows("UPDATE jobs SET state = 'failed', run_after = now() + interval '1 hour'")
    await stage.submit(transcript(user="ana"))
    async with stage.maintenance.connection() as connection:
        await JobQueue(4).enqueue(connection, TENANT, "document-ingestion", user_id="bo")
    assert await stage.claim() == []
    await stage.rows("UPDATE jobs SET run_after = now() WHERE state = 'failed'")
    first = {held.user_id: held for held in await stage.claim()}
    assert (first["ana"].kind, first["bo"].kind) == ("document-ingestion", "memory-extraction")


async def test_b9_a_reconciliation_waits_for_no_message_that_waits_itself(stage: Stage) -> None:
    """A message that is due cannot be read before an older one that rests."""

    async def waits() -> bool:
        async with stage.write.connection() as connection:
            return await collecting.reading_waits(connection.of(ANA))

    await stage.submit(transcript())
    assert await waits()
    await stage.rows("UPDATE jobs SET state = 'failed', run_after = now() + interval '1 hour'")
    await queued(stage, "reconciliation")
    await stage.submit(transcript(conversation="c2"))
    (held,) = await stage.claim()
    assert held.kind == "reconciliation"
    assert not await waits()
    await stage.rows("UPDATE jobs SET run_after = now() WHERE state = 'failed'")
    assert await waits()


async def test_the_job_checked_longest_ago_that_nobody_has_locked_probes_a_model(
    stage: Stage,
) -> None:
    wait = "UPDATE jobs SET error_reason = %s, run_after = now() + make_interval(mins => %s)"
    waiting: dict[str, UUID] = {}
    for name, reason, minutes in (
        ("last", "MODEL_UNAVAILABLE", 50),
        ("first", "MODEL_UNAVAILABLE", 30),
        ("second", "MODEL_UNAVAILABLE", 40),
        ("other kind", "MODEL_MISCONFIGURED", 20),
        ("other reason", "BUDGET_EXHAUSTED", 10),
    ):
        kind = "consolidation" if name == "other kind" else "document-ingestion"
        waiting[name] = await queued(stage, kind, user=name, later=True)
        await stage.rows(f"{wait} WHERE job_id = %s", reason, minutes, waiting[name])

    async def woken(**which: Any) -> set[str]:
        async with stage.maintenance.connection() as connection:
            count = await waking.wake(connection, **{"reasons": waking.OF_A_MODEL, **which})
        found = await stage.rows(
            "UPDATE jobs SET state = 'queued' WHERE state = 'failed' AND run_after <= now()"
            " RETURNING user_id"
        )
        assert len(found) == count
        return {name for (name,) in found}

    kinds = ["document-ingestion"]
    assert await woken(kinds=kinds, most=1) == {"first"}
    async with stage.maintenance.connection() as locking, locking.transaction():
        await locking.execute("SELECT FROM jobs WHERE job_id = %s FOR UPDATE", [waiting["second"]])
        assert await woken(kinds=kinds, most=1) == {"last"}
        # Nor does it keep all others from going on.
        assert await woken() == {"other kind"}
    assert await woken(kinds=kinds) == {"second"}
    assert await woken(reasons=waking.OF_THE_SETTINGS) == {"other reason"}
