"""Who may not go yet: a job whose lease goes on, and a message behind a document that waits."""

from __future__ import annotations

from hitherto_extraction.queue.enqueueing import JobQueue
from tests.integration.queue.stage import TENANT, Stage, transcript


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
