"""Claims, leases and fences, one statement at a time: requirement B5; faults.md rows 1, 5, 6."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import psycopg
import pytest

from hitherto_extraction.queue import attempts, claims, jobs, leases
from hitherto_extraction.queue.claims import Claim, ClaimLost
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.storage import retention
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.errors import WrongState
from hitherto_shared.models import Job
from tests.integration.queue.stage import KINDS, TENANT, Stage, transcript
from tests.waiting import eventually

MODEL_AWAY: dict[str, Any] = {"error": "MODEL_UNAVAILABLE: away", "reason": "MODEL_UNAVAILABLE"}


async def submit_some(stage: Stage, *users: str, each: int = 3) -> None:
    """Queue `each` jobs of every user, one conversation per job."""
    for n in range(each):
        await stage.submit(*(transcript(user=user, conversation=f"c{n}") for user in users))


def whose(held: list[Claim]) -> list[tuple[str, str]]:
    return sorted((each.scope.user_id, each.conversation) for each in held)


async def test_each_users_oldest_job_runs_and_no_other(stage: Stage) -> None:
    """Promise 3: one job of a user at a time, first in first out; users side by side."""
    await submit_some(stage, "ana", "bob", "eve")
    first = await stage.claim()
    assert whose(first) == [("ana", "c0"), ("bob", "c0"), ("eve", "c0")]
    assert await stage.claim() == []
    await stage.finish(first[0])
    (second,) = await stage.claim()
    assert (second.user_id, second.conversation_id) == (first[0].user_id, "c1")


async def test_a_claim_takes_no_more_than_there_is_room_for(stage: Stage) -> None:
    """The oldest jobs across users come first."""
    await submit_some(stage, "ana", "bob", "eve")
    held = [await stage.claim(1) for _ in range(4)]
    assert [whose(each) for each in held] == [[("ana", "c0")], [("bob", "c0")], [("eve", "c0")], []]


async def test_users_of_two_tenants_are_two_users(stage: Stage) -> None:
    """The same user_id in another tenant waits for nobody."""
    await stage.submit(transcript())
    with acting_for("other"):
        await stage.intake().submit("other", [transcript()], None, timeout=5)
    assert len(await stage.claim()) == 2


async def test_a_job_that_waits_for_its_retry_holds_back_the_users_later_ones(stage: Stage) -> None:
    """Promise 3 holds through failures: order is kept while an older job waits."""
    await submit_some(stage, "ana", "bob", each=2)
    held = {each.user_id: each for each in await stage.claim()}
    async with stage.maintenance.connection() as connection:
        await attempts.fail(connection, held["ana"], error="E: x", reason="E", delay_seconds=1_000)
        await attempts.fail(connection, held["bob"], error="E: x", reason="E", delay_seconds=0)
    (again,) = await stage.claim()
    assert (again.user_id, again.conversation_id, again.attempt) == ("bob", "c0", 2)


async def test_a_lease_that_ran_out_is_claimed_again_and_fences_the_zombie(stage: Stage) -> None:
    """faults.md rows 1 and 5: attempt 2, a larger claim number, and no write of the first one."""
    await stage.submit(transcript())
    (zombie,) = await stage.claim()
    assert await stage.claim() == []
    await stage.expire_leases()
    (held,) = await stage.claim()
    assert held.job_id == zombie.job_id
    assert (held.attempt, zombie.attempt) == (2, 1)
    assert held.claim_no > zombie.claim_no
    before = await stage.job(held.job_id)
    async with stage.maintenance.connection() as connection:
        assert await leases.renew(connection, [zombie], lease_seconds=600) == {}
        await attempts.release(connection, zombie)
        await attempts.fail(connection, zombie, error="E: x", reason="E", delay_seconds=0)
        await attempts.wait_out_outage(
            connection, zombie, **MODEL_AWAY, delay_seconds=0, longest_seconds=0
        )
        await attempts.discard(connection, zombie, "USER_ERASED")
        with pytest.raises(ClaimLost):
            await claims.hold(connection, zombie)
        with pytest.raises(ClaimLost):
            await claims.record_progress(connection, zombie, done_to=2, result={}, finished=True)
        with pytest.raises(ClaimLost):
            await claims.fix_range(connection, zombie, range_from=1, range_to=2)
    assert await stage.job(held.job_id) == before
    async with stage.maintenance.connection() as connection:
        assert await leases.renew(connection, [held], lease_seconds=600) == {held.job_id: False}


async def test_a_job_that_loses_every_worker_ends_dead_and_holds_up_nobody(stage: Stage) -> None:
    """faults.md row 6: dead after as many claims as it has attempts; the user's next job runs."""
    await submit_some(stage, "ana", each=2)
    for attempt in range(1, 5):
        (held,) = await stage.claim()
        assert (held.conversation_id, held.attempt) == ("c0", attempt)
        await stage.expire_leases()
    assert await stage.claim() == []
    dead = await stage.job(held.job_id)
    assert (dead["state"], dead["error_reason"]) == ("dead", "WORKER_LOST")
    assert dead["attempt"] == dead["max_attempts"] == 4
    assert dead["error"].startswith("WORKER_LOST: ")
    (following,) = await stage.claim()
    assert following.conversation_id == "c1"


async def test_an_outage_burns_no_attempt_for_a_day(stage: Stage) -> None:
    """faults.md row 25: attempts for an outage do not lead to DEAD in less than 24 hours."""
    await stage.submit(transcript())
    for _ in range(10):
        (held,) = await stage.claim()
        assert held.attempt == 1
        async with stage.maintenance.connection() as connection:
            await attempts.wait_out_outage(
                connection, held, **MODEL_AWAY, delay_seconds=0, longest_seconds=0
            )
        assert await stage.states() == {"failed": 1}
    await stage.rows("UPDATE jobs SET outage_since = now() - interval '25 hours'")
    for attempt in range(1, 5):
        (held,) = await stage.claim()
        assert held.attempt == attempt
        async with stage.maintenance.connection() as connection:
            await attempts.wait_out_outage(
                connection, held, **MODEL_AWAY, delay_seconds=0, longest_seconds=0
            )
    assert await stage.states() == {"dead": 1}
    assert (await stage.job(held.job_id))["error_reason"] == "MODEL_UNAVAILABLE"


@pytest.mark.parametrize("how", [attempts.fail, attempts.pause, attempts.release])
async def test_a_second_outage_counts_from_the_first_one_unless_the_model_was_asked(
    stage: Stage, how: Callable[..., Coroutine[Any, Any, None]]
) -> None:
    """faults.md row 25: a job that stands back now and then still ends, if the model stays away."""
    await stage.submit(transcript())
    why = {} if how is attempts.release else MODEL_AWAY
    away = dict(MODEL_AWAY, delay_seconds=0, longest_seconds=0)
    (held,) = await stage.claim()
    async with stage.maintenance.connection() as connection:
        await attempts.wait_out_outage(connection, held, **away)
        await stage.rows("UPDATE jobs SET outage_since = now() - interval '25 hours'")
        (held,) = await stage.claim()
        await how(connection, held, delay_seconds=0, **why)
        asked = how is attempts.fail
        for _ in range(4):
            (held,) = await stage.claim()
            await attempts.wait_out_outage(connection, held, **away)
    job = await stage.job(held.job_id)
    assert (job["state"], job["attempt"]) == (("failed", 1) if asked else ("dead", 4))


async def test_waits_for_the_model_grow_with_the_outage_and_are_bounded(stage: Stage) -> None:
    """faults.md row 25: back-off although no attempt is used up."""
    await stage.submit(transcript())
    waits = []
    for elapsed in (None, "40 s", "3 hours"):
        (held,) = await stage.claim()
        await stage.rows("UPDATE jobs SET outage_since = now() - %s::interval", elapsed)
        async with stage.maintenance.connection() as connection:
            await attempts.wait_out_outage(
                connection, held, **MODEL_AWAY, delay_seconds=2, longest_seconds=300
            )
        waits.append(
            float(
                await stage.value(
                    "SELECT extract(epoch FROM run_after - clock_timestamp()) FROM jobs"
                )
            )
        )
        await stage.rows("UPDATE jobs SET run_after = now()")
    assert 0 < waits[0] <= 2
    assert 30 < waits[1] <= 41
    assert 290 < waits[2] <= 300


async def test_a_job_handed_back_has_its_attempt_again(stage: Stage) -> None:
    """I2: a drain is nobody's failure."""
    await stage.submit(transcript())
    for _ in range(6):
        (held,) = await stage.claim()
        assert held.attempt == 1
        async with stage.maintenance.connection() as connection:
            await attempts.release(connection, held)
    assert (await stage.job(held.job_id))["attempt"] == 0


async def test_a_retried_job_waits_for_the_one_that_runs(stage: Stage) -> None:
    """One at a time also when an older job comes back to life while a later one runs."""
    await submit_some(stage, "ana", each=2)
    (first,) = await stage.claim()
    async with stage.maintenance.connection() as connection:
        await jobs.cancel_job(connection, TENANT, first.job_id)
    (second,) = await stage.claim()
    async with stage.maintenance.connection() as connection:
        retried = await jobs.retry_job(connection, TENANT, first.job_id)
    assert (retried.state, retried.attempt, retried.error) == ("queued", 0, "")
    assert await stage.claim() == []
    await stage.finish(second)
    (again,) = await stage.claim()
    assert (again.job_id, again.attempt) == (first.job_id, 1)
    assert again.claim_no > first.claim_no


async def test_b5_a_job_whose_worker_is_lost_goes_on_before_an_older_one_of_the_user(
    stage: Stage,
) -> None:
    """While it counts as running, no other job of the user may start: none but it can be first."""
    await submit_some(stage, "ana", each=3)
    (first,) = await stage.claim()
    async with stage.maintenance.connection() as connection:
        await jobs.cancel_job(connection, TENANT, first.job_id)
    (second,) = await stage.claim()
    async with stage.maintenance.connection() as connection:
        await jobs.retry_job(connection, TENANT, first.job_id)
    await stage.expire_leases()
    async with stage.maintenance.connection() as connection:
        found = await claims.claim(
            connection,
            worker="test",
            kinds=KINDS,
            limit=10,
            lease_seconds=60.0,
            resting=[(TENANT, "memory-extraction")],
        )
    assert [(held.job_id, held.attempt) for held in found] == [(second.job_id, 2)]
    await stage.finish(found[0])
    for conversation in ("c0", "c2"):
        (held,) = await stage.claim()
        assert held.conversation == conversation
        await stage.finish(held)


async def test_b5_upkeep_whose_worker_is_lost_goes_on_before_older_upkeep_that_is_due_by_now(
    stage: Stage,
) -> None:
    queue = JobQueue(4)
    async with stage.maintenance.connection() as connection:
        for kind in ("reconciliation", "retention"):
            await queue.enqueue(connection, TENANT, kind, user_id="ana")
    wait = "UPDATE jobs SET run_after = now() + %s::interval WHERE kind = 'reconciliation'"
    await stage.rows(wait, "1 hour")
    (held,) = await stage.claim()
    assert held.kind == "retention"
    await stage.rows(wait, "-1 hour")
    assert await stage.claim() == []
    await stage.expire_leases()
    (again,) = await stage.claim()
    assert (again.job_id, again.attempt) == (held.job_id, 2)
    await stage.finish(again)
    (older,) = await stage.claim()
    assert older.kind == "reconciliation"


@pytest.mark.parametrize("again", [jobs.cancel_job, jobs.retry_job])
async def test_of_two_calls_at_once_the_second_is_told_the_present_state(
    stage: Stage, superuser_conninfo: str, again: Callable[..., Coroutine[Any, Any, Job]]
) -> None:
    """B5: as if it had come later: CancelJob changes nothing, RetryJob is refused."""
    cancelling = again is jobs.cancel_job
    job_id = await job_in(stage, "running" if cancelling else "cancelled")
    async with stage.maintenance.connection() as first, stage.maintenance.connection() as second:
        async with first.transaction():
            await again(first, TENANT, job_id)
            waiting = asyncio.ensure_future(again(second, TENANT, job_id))
            await eventually(lambda: some_wait_for_a_lock(superuser_conninfo))
        if cancelling:
            assert (await waiting).state == "cancelled"
            return
        with pytest.raises(WrongState) as refused:
            await waiting
    assert refused.value.metadata == {"job_id": str(job_id), "state": "QUEUED"}


async def some_wait_for_a_lock(conninfo: str) -> bool:
    """Whether a statement waits for a row that another transaction has changed."""
    async with await psycopg.AsyncConnection.connect(conninfo) as looker:
        found = await looker.execute(
            "SELECT 1 FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return await found.fetchone() is not None


async def job_in(stage: Stage, state: str) -> Any:
    accepted = await stage.submit(transcript())
    job_id = accepted.jobs[0].job_id
    async with stage.maintenance.connection() as connection:
        if state == "cancelled":
            await jobs.cancel_job(connection, TENANT, job_id)
            return job_id
        await stage.claim()
    assert (await stage.job(job_id))["state"] == state
    return job_id


async def test_claiming_does_not_read_finished_jobs(stage: Stage) -> None:
    """The claim goes through the partial indexes, however many jobs have ended."""
    await stage.rows(_FINISHED, 20_000)
    await submit_some(stage, "u1", "u2", "u3", each=2)
    await stage.rows("ANALYZE jobs")
    scans = list(scans_of(await plan_of_a_claim(stage, "FORMAT JSON")))
    on_jobs = [scan for scan in scans if scan.get("Relation Name") == "jobs"]
    assert len(on_jobs) == 6
    assert "Seq Scan" not in {scan["Node Type"] for scan in on_jobs}
    used = [scan["Index Name"] for scan in on_jobs]
    assert "jobs_pkey" in used
    assert set(used) - {"jobs_pkey"} <= {
        "jobs_unfinished",
        "jobs_waiting",
        "jobs_one_running",
        "jobs_tenant_wide",
    }
    assert "jobs_tenant_wide" in used
    assert len(await stage.claim()) == 3


async def test_upkeep_does_not_read_finished_jobs(stage: Stage) -> None:
    """They stay for ever: retention looks for unread messages, and re-embedding for its job."""
    await stage.rows(_FINISHED, 20_000)
    await submit_some(stage, "u1", "u2", "u3", each=2)
    await stage.rows("UPDATE jobs SET state = 'dead', finished_at = now() WHERE user_id = 'u1'")
    await stage.rows("ANALYZE jobs")
    days = {"memory_days": 30, "message_days": 30, "most_days": 36_500}
    values = {"tenant_id": TENANT, "user_id": None, "after": "", "limit": 200, "model": "m", **days}
    for statement in (retention._DUE, retention._COUNT, jobs._LATEST_BACKFILL):
        async with stage.maintenance.connection() as connection:
            explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}".encode()
            row = await connection.fetch_row(explained, values)
        assert row is not None
        read = [
            scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0)
            for scan in scans_of(row[0][0]["Plan"])
            if scan.get("Relation Name") == "jobs"
        ]
        assert read
        assert max(read) <= 100, statement


async def plan_of_a_claim(
    stage: Stage, options: str, resting: str = "consolidation"
) -> dict[str, Any]:
    """How a claim, which is undone, is executed."""
    values = {
        "worker": "test",
        "limit": 4,
        "tenant_wide": 1,
        "lease": 60.0,
        "own_kinds": KINDS,
        "tenants": [TENANT],
        "kinds": [resting],
        "channel": "test",
    }
    async with (
        stage.maintenance.connection() as connection,
        connection.transaction(force_rollback=True),
    ):
        row = await connection.fetch_row(f"EXPLAIN ({options}) {claims._CLAIM}".encode(), values)
    assert row is not None
    plans = row[0] if isinstance(row[0], list) else json.loads(row[0])
    plan: dict[str, Any] = plans[0]["Plan"]
    return plan


def scans_of(node: dict[str, Any]) -> Any:
    """The nodes of a plan, with bitmap index scans folded into their heap scans."""
    if node["Node Type"] == "Bitmap Heap Scan":
        inner = node["Plans"][0]
        node = {**node, "Index Name": inner.get("Index Name"), "Plans": []}
    if "Relation Name" in node and node["Node Type"] != "ModifyTable":
        yield node
    for child in node.get("Plans", []):
        yield from scans_of(child)


_FINISHED = """
INSERT INTO jobs (job_id, tenant_id, user_id, kind, state, conversation_id, range_from, range_to,
                  done_to, max_attempts, finished_at)
SELECT gen_random_uuid(), 'default', 'u' || n %% 500, 'memory-extraction', 'succeeded',
       'c' || n, 1, 2, 2, 4, now()
FROM generate_series(1, %s) AS n
"""
_MANY = """
INSERT INTO jobs (job_id, tenant_id, user_id, kind, state, max_attempts)
SELECT gen_random_uuid(), %s, %s, 'document-ingestion', 'queued', 4 FROM generate_series(1, %s)
"""

_END_SOME = """
UPDATE jobs SET state = 'succeeded', finished_at = clock_timestamp()
WHERE sequence_no IN (SELECT sequence_no FROM jobs ORDER BY sequence_no LIMIT %s)
"""


def rows_of(node: dict[str, Any]) -> float:
    """The rows that an executed plan read, joined, compared or handed on."""
    counts = ("Actual Rows", "Rows Removed")
    own: float = sum(rows for key, rows in node.items() if key.startswith(counts))
    loops: int = node["Actual Loops"]
    return loops * own + sum(map(rows_of, node.get("Plans", [])))


@pytest.mark.parametrize("analysed", [False, True])
async def test_thousands_of_jobs_of_one_user_hold_up_no_claim(stage: Stage, analysed: bool) -> None:
    """Each waits for the first of its user; whoever saves much has that many checks."""
    users, each = ("ana", "bob"), 2_000
    await submit_some(stage, *users, each=1)
    for user in users:
        await stage.rows(_MANY, TENANT, user, each)
    await submit_some(stage, "eve", each=1)
    if analysed:
        await stage.rows("ANALYZE jobs")
    for expected in ([(user, "c0") for user in (*users, "eve")], []):
        read = rows_of(await plan_of_a_claim(stage, "ANALYZE, FORMAT JSON"))
        # Each of the jobs some times; each with each is millions.
        assert read < 20 * each * len(users)
        assert whose(await stage.claim()) == expected


_TRANSCRIPTS_THEN_DOCUMENTS = """
INSERT INTO jobs (job_id, tenant_id, user_id, kind, state, conversation_id, range_from, range_to,
                  max_attempts)
SELECT gen_random_uuid(), %(tenant_id)s, 'u' || n %% %(users)s, 'memory-extraction', 'queued',
       'c' || n, 1, 2, 4
FROM generate_series(1, %(each)s * %(users)s) AS n
UNION ALL
SELECT gen_random_uuid(), %(tenant_id)s, 'u' || n %% %(users)s, 'document-ingestion', 'queued',
       NULL, NULL, NULL, 4
FROM generate_series(1, %(each)s * %(users)s) AS n
"""


@pytest.mark.parametrize("analysed", [False, True])
async def test_transcripts_that_rest_hold_up_no_claim(stage: Stage, analysed: bool) -> None:
    """A spent budget leaves thousands of them, before the documents of users who take turns."""
    users, each = 20, 200
    await stage.rows(_TRANSCRIPTS_THEN_DOCUMENTS, tenant_id=TENANT, users=users, each=each)
    if analysed:
        await stage.rows("ANALYZE jobs")
    read = rows_of(await plan_of_a_claim(stage, "ANALYZE, FORMAT JSON", "memory-extraction"))
    # Each of the jobs some times; each document with each transcript of its user is a million.
    assert read < 20 * 2 * each * users


async def test_a_claim_looks_at_the_finished_jobs_of_a_user_once(stage: Stage) -> None:
    """While a backup holds a snapshot, the index keeps every job that has ended since."""
    await stage.rows(_MANY, TENANT, "ana", 2_000)
    async with stage.maintenance.connection() as backup, backup.transaction():
        await backup.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await backup.execute("SELECT FROM jobs")
        await stage.rows(_END_SOME, 1_000)
        await stage.rows("ANALYZE jobs")
        plan = await plan_of_a_claim(stage, "ANALYZE, BUFFERS, FORMAT JSON")
    # Each page some times; the finished jobs again for each waiting one took 27,000.
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 2_000
