"""Who runs a slot, and when (requirement C4).

Rows of the fault catalogue: 40 (replicas, missed, fired twice), 41 (clocks).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from uuid import UUID

import apscheduler.schedulers.base
import apscheduler.triggers.interval
import psycopg
import pytest

from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.storage import removal
from hitherto_extraction.storage import schedules as storage
from hitherto_extraction.storage.retention import RetentionDays
from hitherto_extraction.sweeps import Scheduler
from hitherto_extraction.upkeep.schedules import Schedules, read_schedules
from hitherto_shared.database.pool import Database
from hitherto_shared.database.user_rows import UserRows
from tests.e2e.sweeping import sweeping
from tests.integration.upkeep.stage import BOUND, TENANT, Stage

YEARLY = "0 0 1 1 *"
"""No slot passes by while a test runs."""
LINES = {"decay": YEARLY, "consolidation": YEARLY, "retention": YEARLY, "idle": "* * * * *"}


async def nothing() -> None:
    """An idle sweep that finds nothing."""


def replica(
    stage: Stage,
    lines: dict[str, str] | None = None,
    *,
    idle: Callable[[], Awaitable[None]] = nothing,
    keep: RetentionDays | None = None,
    database: Database | None = None,
) -> Schedules:
    """The schedules of one process."""
    return Schedules(
        database or stage.maintenance,
        read_schedules(LINES if lines is None else lines),
        idle=idle,
        keep=keep or RetentionDays(0, 0),
        queue=JobQueue(4),
        audit=nothing,
    )


async def queued(stage: Stage) -> list[tuple[object, ...]]:
    """Every job of a schedule."""
    return await stage.rows(
        "SELECT tenant_id, kind, schedule, user_id, state FROM jobs"
        " WHERE schedule IS NOT NULL ORDER BY tenant_id, kind, slot"
    )


async def test_three_replicas_run_a_slot_once(stage: Stage) -> None:
    """faults.md row 40."""
    swept = 0

    async def idle() -> None:
        nonlocal swept
        swept += 1

    await stage.user("ana")
    await stage.user("bob")
    await stage.rows("INSERT INTO users (tenant_id, user_id) VALUES ('other', 'ana')")
    lines = dict.fromkeys(("decay", "consolidation", "idle"), YEARLY)
    replicas = [replica(stage, lines, idle=idle) for _ in "abc"]
    ran = await asyncio.gather(*(each.tick() for each in replicas for _ in range(3)))
    assert sorted(name for names in ran for name in names) == ["consolidation", "decay", "idle"]
    assert swept == 1
    assert await queued(stage) == [
        (tenant, kind, kind, None, "queued")
        for tenant in (TENANT, "other")
        for kind in ("consolidation", "decay")
    ]
    assert await stage.value("SELECT count(*) FROM schedule_runs") == 3


async def test_slots_that_were_missed_are_run_once(stage: Stage) -> None:
    """faults.md row 40: down for three days, then the latest slot, and nothing twice."""
    await stage.user()
    await replica(stage, {"decay": YEARLY}).tick()
    await stage.rows("UPDATE schedule_runs SET slot = slot - interval '3 days'")
    await stage.rows(
        "UPDATE jobs SET slot = slot - interval '3 days', state = 'succeeded', finished_at = now()"
    )
    assert await replica(stage, {"decay": YEARLY}).tick() == ["decay"]
    assert await replica(stage, {"decay": YEARLY}).tick() == []
    assert await stage.value("SELECT count(*) FROM jobs") == 2
    assert await stage.value("SELECT max(slot) = date_trunc('year', now()) FROM schedule_runs")


async def test_a_schedule_that_was_never_run_has_missed_its_last_slot(stage: Stage) -> None:
    await stage.user()
    assert await replica(stage, {"decay": "0 0 1 1 *"}).tick() == ["decay"]
    slot = await stage.value("SELECT slot FROM jobs")
    assert (slot.month, slot.day, slot.hour) == (1, 1, 0)


async def test_a_tenant_whose_job_has_not_ended_gets_no_second_one(stage: Stage) -> None:
    await stage.user()
    await stage.rows("INSERT INTO users (tenant_id, user_id) VALUES ('other', 'ana')")
    await replica(stage, {"decay": YEARLY}).tick()
    await stage.rows(
        "UPDATE jobs SET state = 'succeeded', finished_at = now() WHERE tenant_id = 'other'"
    )
    await stage.rows("UPDATE schedule_runs SET slot = slot - interval '1 day'")
    await stage.rows("UPDATE jobs SET slot = slot - interval '1 day'")
    assert await replica(stage, {"decay": YEARLY}).tick() == ["decay"]
    assert await queued(stage) == [
        (TENANT, "decay", "decay", None, "queued"),
        ("other", "decay", "decay", None, "succeeded"),
        ("other", "decay", "decay", None, "queued"),
    ]


async def test_slots_are_those_of_the_databases_clock(stage: Stage) -> None:
    """faults.md row 41: when a machine's clock wakes it early or late decides nothing."""
    await stage.user()
    now = await stage.value("SELECT clock_timestamp()")
    # A slot that lies twenty minutes ahead for the database is none yet.
    ahead = now + timedelta(minutes=20)
    lines = {"decay": f"{ahead.minute} {ahead.hour} * * *"}
    await replica(stage, lines).tick()
    taken = await stage.value("SELECT slot FROM schedule_runs")
    assert taken <= now
    assert now - taken > timedelta(hours=23)
    assert await replica(stage, lines).tick() == []
    # And one older than what was run is not run after it.
    behind = now - timedelta(minutes=20)
    assert await replica(stage, {"decay": f"{behind.minute} {behind.hour} * * *"}).tick() == [
        "decay"
    ]
    assert await replica(stage, lines).tick() == []


async def test_retention_is_queued_only_where_somebody_asked_for_it(stage: Stage) -> None:
    """C3 is opt-in: for the installation or for one user."""
    await stage.user()
    await stage.rows("INSERT INTO users (tenant_id, user_id) VALUES ('other', 'bob')")
    lines = {"retention": YEARLY}

    async def again() -> list[object]:
        await stage.rows("DELETE FROM schedule_runs")
        await stage.rows("DELETE FROM jobs")
        return [row[0] for row in await queued(stage)]

    await replica(stage, lines).tick()
    assert await queued(stage) == []
    await again()
    await stage.user("ana", message_retention_days=7)
    await replica(stage, lines).tick()
    assert [row[0] for row in await queued(stage)] == [TENANT]
    await again()
    await replica(stage, lines, keep=RetentionDays(30, 0)).tick()
    assert [row[0] for row in await queued(stage)] == [TENANT, "other"]
    await again()
    # Everybody said otherwise.
    await stage.rows("UPDATE users SET retention_days = 0, message_retention_days = 0")
    await replica(stage, lines, keep=RetentionDays(30, 0)).tick()
    assert await queued(stage) == []


async def test_off_is_never_and_nobody_is_no_job(stage: Stage) -> None:
    assert await replica(stage, {"decay": "off"}).tick() == []
    assert await stage.value("SELECT count(*) FROM schedule_runs") == 0
    assert await replica(stage, {"decay": YEARLY}).tick() == ["decay"]
    assert await queued(stage) == []


async def test_old_runs_are_forgotten(stage: Stage) -> None:
    await stage.rows(
        "INSERT INTO schedule_runs (schedule, slot) SELECT 'idle', now() - make_interval(days => n)"
        " FROM generate_series(1, 20) AS n"
    )
    await stage.rows(
        "INSERT INTO schedule_runs (schedule, slot) VALUES ('other', now() - interval '1 year')"
    )
    await replica(stage, {"idle": "* * * * *"}).tick()
    assert await stage.rows(
        "SELECT schedule, count(*) FROM schedule_runs GROUP BY 1 ORDER BY 1"
    ) == [("idle", storage.KEEP_DAYS + 1), ("other", 1)]


async def test_a_crash_in_between_leaves_the_slot_to_the_next(stage: Stage) -> None:
    """The slot and its jobs are one transaction."""
    await stage.user()
    await stage.rows(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'crash' USING ERRCODE = '57P01'; END$$"
    )
    await stage.rows(
        "CREATE TRIGGER refuse BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    schedules = replica(stage, {"decay": YEARLY})
    scheduler = Scheduler(schedules, [])
    # The scheduler lives on, and says so in the log.
    await scheduler.tick()
    assert await stage.value("SELECT count(*) FROM schedule_runs") == 0
    await stage.rows("DROP TRIGGER refuse ON jobs")
    await scheduler.tick()
    assert await queued(stage) == [(TENANT, "decay", "decay", None, "queued")]


async def test_the_scheduler_catches_up_when_it_starts(stage: Stage) -> None:
    """C4: nobody waits for the next moment of the cron line."""
    await stage.user()
    duties = asyncio.Event()

    async def duty() -> None:
        duties.set()

    scheduler = Scheduler(replica(stage, {"decay": "0 0 1 1 *"}), [(0.05, duty)])
    scheduler.start()
    try:
        async with asyncio.timeout(BOUND):
            await duties.wait()
            while not await queued(stage):  # noqa: ASYNC110 - the database is what changes
                await asyncio.sleep(0.02)
    finally:
        scheduler.stop()
    assert await queued(stage) == [(TENANT, "decay", "decay", None, "queued")]


async def test_a_duty_with_a_long_interval_begins_soon(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that lives for less than the interval does it all the same."""
    monkeypatch.setattr("hitherto_extraction.sweeps._FIRST_SECONDS", 0.05, raising=False)
    begun = asyncio.Event()

    async def duty() -> None:
        begun.set()

    scheduler = Scheduler(replica(stage, {}), [(3_600.0, duty)])
    scheduler.start()
    try:
        async with asyncio.timeout(BOUND):
            await begun.wait()
    finally:
        scheduler.stop()


async def test_keys_and_replies_expire_in_batches_and_each_without_the_other(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitherto_extraction.sweeps._BATCH", 2)
    await stage.user()
    for number in range(6):
        # The first of each is kept for a while yet.
        key = {"rpc": "r", "key": str(number), "subject": "", "body_hash": bytes(32)}
        await stage.rows(
            "INSERT INTO idempotency_keys (tenant_id, rpc, key, subject, body_hash, user_ids,"
            " resource_ids, created_at)"
            " VALUES (%s, %s, %s, %s, %s, '{}', '{}', now() - %s * interval '49 hours')",
            *(TENANT, *key.values(), number),
        )
        reply = {"claim_no": number, "sealed_reply": "", "recorded_at": f"{8 * number} days"}
        await stage.put("unusable_replies", job_id=UUID(int=1), **reply)
    await stage.rows(
        "CREATE FUNCTION one_batch() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
        " IF TG_ARGV[0] = 'none' OR (SELECT count(*) FROM gone) > 2 THEN"
        " RAISE EXCEPTION 'crash' USING ERRCODE = '40001'; END IF; RETURN NULL; END$$"
    )
    batches = (
        "CREATE OR REPLACE TRIGGER one_batch AFTER DELETE ON {} REFERENCING OLD TABLE AS gone"
        " FOR EACH STATEMENT EXECUTE FUNCTION one_batch('{}')"
    )
    await stage.rows(batches.format("idempotency_keys", "none"))
    await stage.rows(batches.format("unusable_replies", "some"))
    left = "SELECT count(*) FROM {}"
    async with sweeping(stage.conninfo) as sweeps:
        for keys in (6, 1):
            for _, duty in sweeps.at_intervals(idle=False):
                await duty()
            assert await stage.value(left.format("idempotency_keys")) == keys
            assert await stage.value(left.format("unusable_replies")) == 1
            await stage.rows(batches.format("idempotency_keys", "some"))


async def test_a_duty_that_takes_longer_than_its_interval_goes_on_without_a_warning(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[int] = []
    may_end, again = asyncio.Event(), asyncio.Event()

    async def duty() -> None:
        begun.append(len(begun))
        if len(begun) > 1:
            again.set()
        await may_end.wait()

    looked = asyncio.Event()

    async def other() -> None:
        looked.set()

    scheduler = Scheduler(replica(stage, {}), [(0.02, duty), (0.3, other)])
    with caplog.at_level(logging.WARNING):
        scheduler.start()
        try:
            async with asyncio.timeout(BOUND):
                await looked.wait()
                assert begun == [0], "one at a time"
                may_end.set()
                await again.wait()
        finally:
            scheduler.stop()
    assert not caplog.records


async def test_a_database_that_is_away_is_waited_out(stage: Stage, conninfo: str) -> None:
    """The background goes on when a look fails."""
    gone = Database(
        psycopg.conninfo.make_conninfo(conninfo, dbname="nowhere"),
        "hitherto_maintenance",
        application="test",
        wait_seconds=0.2,
    )
    await gone._pool.open()
    try:
        await Scheduler(replica(stage, database=gone), []).tick()
    finally:
        await gone.close()
    assert await stage.value("SELECT count(*) FROM schedule_runs") == 0


async def test_a_clock_that_is_set_back_delays_no_duty(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 41: a machine that begins with a wrong clock and then learns the time."""

    class Hasty(datetime):
        ahead = timedelta(hours=3)

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + cls.ahead

    monkeypatch.setattr(apscheduler.schedulers.base, "datetime", Hasty)
    monkeypatch.setattr(apscheduler.triggers.interval, "datetime", Hasty)
    begun = 0
    again = asyncio.Event()

    async def duty() -> None:
        nonlocal begun
        begun += 1
        Hasty.ahead = timedelta()
        if begun > 2:
            again.set()

    scheduler = Scheduler(replica(stage, {}), [(0.05, duty)])
    scheduler.start()
    try:
        async with asyncio.timeout(BOUND):
            await again.wait()
    finally:
        scheduler.stop()


# What upkeep looks at a second time: a slot that somebody has passed, a memory told in between.


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


async def test_row_40_an_older_slot_is_not_run_after_a_newer_one(stage: Stage) -> None:
    """A replica whose clock or list is behind takes nothing that another has passed."""
    async with stage.maintenance.connection() as connection:
        assert await storage.take(connection, "decay", NOON)
        for behind in (timedelta(0), timedelta(minutes=1), timedelta(days=1)):
            assert not await storage.take(connection, "decay", NOON - behind), behind
        assert await storage.take(connection, "consolidation", NOON - timedelta(days=1))
        assert await storage.take(connection, "decay", NOON + timedelta(minutes=1))


async def test_row_42_a_run_of_retention_looks_again_under_the_lock(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look and the lock a memory is told: the run leaves it alone."""
    told = await stage.memory("Told.")
    untold = await stage.memory("Untold.")
    lock = removal.lock_memories

    async def late(user: UserRows, found: Sequence[UUID]) -> list[UUID]:
        assert {told, untold} & set(found)
        await stage.told(told)
        return list(await lock(user, found))

    monkeypatch.setattr(removal, "lock_memories", late)
    assert (await stage.retention(30))["memories"] == 1
    assert await stage.rows("SELECT memory_id FROM memories") == [(told,)]


async def test_row_42_a_run_of_retention_leaves_alone_what_is_being_told(stage: Stage) -> None:
    """The reader has not committed when the run looks again: it deletes what it holds, no more."""
    told = await stage.memory("Told.")
    await stage.memory("Untold.")
    async with stage.admin.transaction():
        await stage.told(told)
        assert (await stage.retention(30))["memories"] == 1
    assert (await stage.retention(30))["memories"] == 0
    assert await stage.rows("SELECT memory_id FROM memories") == [(told,)]
