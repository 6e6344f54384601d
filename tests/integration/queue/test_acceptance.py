"""Durable acceptance of transcripts: requirements B1, B3, B4; faults.md rows 3, 36, 38."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from hitherto_extraction.storage import idempotency
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import AlreadyExists, NotFound, WrongState
from tests.integration.queue.stage import (
    ANA,
    BOUND,
    TENANT,
    Stage,
    identity,
    message,
    transcript,
)


async def stored(stage: Stage) -> tuple[int, int, int]:
    """Numbers of conversations, messages and jobs."""
    found = await stage.rows(
        "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM messages),"
        " (SELECT count(*) FROM jobs)"
    )
    return found[0][0], found[0][1], found[0][2]


async def test_an_accepted_batch_is_committed_with_its_jobs_in_order(stage: Stage) -> None:
    """B1: whatever the order in which locks are taken, jobs stand in the order of the batch."""
    batch = [
        transcript(user="zoe", conversation="c9"),
        transcript(user="ana", conversation="c2"),
        transcript(user="ana", conversation="c1"),
    ]
    accepted = await stage.submit(*batch)
    assert [(job.user_id, job.conversation_id) for job in accepted.jobs] == [
        ("zoe", "c9"),
        ("ana", "c2"),
        ("ana", "c1"),
    ]
    assert {job.state for job in accepted.jobs} == {"queued"}
    assert [(job.range_from, job.range_to) for job in accepted.jobs] == [(1, 2)] * 3
    assert await stored(stage) == (3, 6, 3)


async def test_a_reply_waits_for_the_commit_to_reach_the_disk(stage: Stage) -> None:
    """Promise 1: an acknowledged batch survives a crash of Postgres."""
    for database in (stage.write, stage.maintenance):
        async with database.connection() as connection:
            assert await connection.fetch_value("SHOW synchronous_commit") == "on"


async def test_the_same_transcript_again_returns_the_job_that_covers_it(stage: Stage) -> None:
    """B4, faults.md row 36 "same body, no key": nothing is doubled, whatever became of the job."""
    first = await stage.submit(transcript(1, 4))
    again = await stage.submit(transcript(1, 4))
    assert [job.job_id for job in again.jobs] == [job.job_id for job in first.jobs]
    (held,) = await stage.claim()
    await stage.finish(held)
    later = await stage.submit(transcript(1, 4))
    assert [(job.job_id, job.state) for job in later.jobs] == [(first.jobs[0].job_id, "succeeded")]
    part = await stage.submit(transcript(2, 3))
    assert part.jobs[0].job_id == first.jobs[0].job_id
    assert await stored(stage) == (1, 4, 1)


async def test_the_same_transcript_twenty_times_at_once_makes_one_job(stage: Stage) -> None:
    """faults.md row 36 "same body, no key", at the same moment."""
    accepted = await asyncio.gather(*(stage.submit(transcript(1, 4)) for _ in range(20)))
    assert len({each.jobs[0].job_id for each in accepted}) == 1
    assert await stored(stage) == (1, 4, 1)


async def test_a_known_transcript_leaves_appended_messages_alone(stage: Stage) -> None:
    """A transcript that adds nothing returns its own job, not one for what was appended since."""
    first = await stage.submit(transcript(1, 2))
    await stage.intake().append(ANA, "c1", [message(3)], None, timeout=BOUND)
    again = await stage.submit(transcript(1, 2))
    assert again.jobs[0].job_id == first.jobs[0].job_id
    assert await stage.rows("SELECT last_message_no, watermark FROM conversations") == [(3, 2)]
    ended = await stage.submit(transcript(1, 2, ended=True))
    assert (ended.jobs[0].range_from, ended.jobs[0].range_to) == (3, 3)
    assert await stage.rows("SELECT last_message_no, watermark FROM conversations") == [(3, 3)]


async def test_messages_whose_job_is_no_longer_kept_are_run_again(stage: Stage) -> None:
    """A transcript always gets a job to follow, even after old jobs were cleared away."""
    await stage.submit(transcript(1, 6))
    await stage.rows("DELETE FROM jobs")
    again = await stage.submit(transcript(2, 4))
    assert [(job.state, job.range_from, job.range_to) for job in again.jobs] == [("queued", 2, 4)]


async def test_a_known_message_with_other_content_is_refused(stage: Stage) -> None:
    """Contract: MESSAGE_ID_REUSED names the place, and nothing of the batch is stored."""
    await stage.submit(transcript(1, 2))
    before = await stored(stage)
    changed = replace(transcript(3, 4), messages=[message(3), message(1, "something else")])
    with pytest.raises(WrongState) as refused:
        await stage.submit(transcript(conversation="c0"), changed)
    assert refused.value.reason == "MESSAGE_ID_REUSED"
    assert refused.value.metadata == {
        "field": "transcripts[1].messages[1].id",
        "conversation_id": "c1",
        "message_id": "m1",
    }
    with pytest.raises(WrongState):
        await stage.submit(replace(changed, messages=[message(1, role="assistant")]))
    assert await stored(stage) == before


async def test_message_ids_are_a_conversations_own(stage: Stage) -> None:
    """The same ids in another conversation, or of another user, are other messages."""
    await stage.submit(
        transcript(1, 2), transcript(1, 2, conversation="c2"), transcript(1, 2, user="bob")
    )
    assert await stored(stage) == (3, 6, 3)


async def test_one_key_with_two_bodies_at_once_lets_one_in(stage: Stage) -> None:
    """faults.md row 36: whichever commits first owns the key; the other leaves nothing behind."""
    outcomes = await asyncio.gather(
        *(
            stage.intake().submit(
                TENANT,
                [transcript(conversation=f"c{i % 2}")],
                identity("k1", b"body %d" % (i % 2)),
                timeout=BOUND,
            )
            for i in range(20)
        ),
        return_exceptions=True,
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, AlreadyExists)]
    assert len(refused) == 10
    assert {error.reason for error in refused} == {"IDEMPOTENCY_KEY_REUSED"}
    assert await stored(stage) == (1, 2, 1)


async def test_a_replayed_append_tells_what_is_pending_now(stage: Stage) -> None:
    """Contract, idempotency: the first outcome again, not an empty one."""
    intake = stage.intake()
    key = identity("k1", rpc="AppendMessages")
    sent = [message(1), message(2)]
    first = await intake.append(ANA, "c1", sent, key, timeout=BOUND)
    again = await intake.append(ANA, "c1", sent, key, timeout=BOUND)
    assert (first.pending_messages, again.pending_messages) == (2, 2)
    assert await stored(stage) == (1, 2, 0)


async def test_a_refused_call_does_not_use_its_key_up(stage: Stage) -> None:
    """A key remembers outcomes, not failures: what was refused may be tried again."""
    intake = stage.intake()
    key = identity("k1", rpc="EndConversation")
    with pytest.raises(NotFound):
        await intake.end(ANA, "c1", key, timeout=BOUND)
    await intake.append(ANA, "c1", [message(1)], None, timeout=BOUND)
    ended = await intake.end(ANA, "c1", key, timeout=BOUND)
    assert (ended.jobs[0].range_from, ended.jobs[0].range_to) == (1, 1)


async def test_keys_are_kept_for_a_day_at_least(stage: Stage) -> None:
    """Contract: a key replays for at least 24 hours; the sweep takes only what is older."""
    for key, hours in (("young", 25), ("old", 49)):
        await stage.intake().submit(TENANT, [transcript()], identity(key), timeout=BOUND)
        await stage.rows(
            "UPDATE idempotency_keys SET created_at = now() - make_interval(hours => %s)"
            " WHERE key = %s",
            hours,
            key,
        )

    async def expire(connection: Connection) -> int:
        return await idempotency.expire(connection, limit=200)

    assert await stage.maintenance.run(expire, timeout=BOUND) == 1
    assert await stage.rows("SELECT key FROM idempotency_keys") == [("young",)]


async def test_memory_off_stores_nothing_and_says_so(stage: Stage) -> None:
    """Contract, "Submitting": a CANCELLED job with MEMORY_DISABLED; nothing of what was said."""
    off = stage.intake(memory_enabled=False)
    submitted = await off.submit(TENANT, [transcript()], None, timeout=BOUND)
    appended = await off.append(ANA, "c1", [message(3)], None, timeout=BOUND)
    for job in submitted.jobs + appended.jobs:
        assert job.state == "cancelled"
        assert job.error.startswith("MEMORY_DISABLED")
    assert appended.pending_messages == 0
    assert await stored(stage) == (0, 0, 2)


async def test_batches_that_cross_each_other_never_deadlock(stage: Stage) -> None:
    """faults.md row 22: the same two conversations in opposite order, at the same moment."""
    for n in range(1, 21):
        one = [
            transcript(n, n, user="ana", conversation="c1"),
            transcript(n, n, user="bob", conversation="c2"),
        ]
        await asyncio.gather(stage.submit(*one), stage.submit(*reversed(one)), stage.submit(*one))
    assert await stored(stage) == (2, 40, 40)


async def test_a_users_own_setting_overrides_the_default(stage: Stage) -> None:
    """A user may have memory where the deployment has it off, and the other way round."""
    await stage.submit(transcript(conversation="c0"))
    await stage.rows("UPDATE users SET memory_enabled = true")
    on = await stage.intake(memory_enabled=False).submit(TENANT, [transcript()], None, timeout=5)
    assert on.jobs[0].state == "queued"
    await stage.rows("UPDATE users SET memory_enabled = false")
    off = await stage.submit(transcript(conversation="c2"))
    assert off.jobs[0].error.startswith("MEMORY_DISABLED")
