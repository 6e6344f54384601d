"""Whole workers at work, side by side: requirement B5; faults.md rows 1, 2, 5, 6, 20, 25, 37."""

from __future__ import annotations

import asyncio
import gc
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from hitherto_extraction.pipeline import job_commit
from hitherto_extraction.pipeline.extraction_prompt import PromptBackground
from hitherto_extraction.provider.protocol import Completion, Prompt
from hitherto_extraction.queue import attempts, jobs
from hitherto_extraction.queue.claims import Claim, ClaimLost
from hitherto_extraction.worker import Runner
from hitherto_shared.audit.trail import Trail
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import Exhausted, TooLate
from hitherto_shared.model_api import ModelRefused
from tests.integration.queue.chat import CanaryChat, HeldChat
from tests.integration.queue.stage import TENANT, Stage, message, transcript
from tests.waiting import eventually


class Journal:
    """A runner that writes down what it runs, in order."""

    def __init__(self, inner: Runner) -> None:
        self.started: dict[str, list[str]] = defaultdict(list)
        self._inner = inner

    async def run(self, held: Claim) -> None:
        self.started[held.scope.user_id].append(held.conversation)
        await self._inner(held)


async def overlaps(stage: Stage) -> int:
    """How many jobs began before the one before them, of the same user, had ended."""
    found: int = await stage.value(
        "SELECT count(*) FROM (SELECT started_at < lag(finished_at) OVER"
        " (PARTITION BY user_id ORDER BY sequence_no) AS early FROM jobs) AS each WHERE early"
    )
    return found


async def test_three_workers_do_two_hundred_jobs_once_each_and_in_order(stage: Stage) -> None:
    """Promises 2 and 3, faults.md row 37: 20 users, ten jobs each, no user twice at a time."""
    for n in range(10):
        await stage.submit(
            *(transcript(1, 1, user=f"u{u}", conversation=f"c{n}") for u in range(20))
        )
    journal = Journal(stage.finish)
    workers = [stage.worker(journal.run) for _ in range(3)]
    for worker in workers:
        await worker.start()
    await stage.settled()
    assert await stage.states() == {"succeeded": 200}
    assert journal.started == {f"u{u}": [f"c{n}" for n in range(10)] for u in range(20)}
    assert await overlaps(stage) == 0
    assert await stage.rows("SELECT DISTINCT attempt, claim_no FROM jobs") == [(1, 1)]


async def test_users_run_in_parallel_up_to_the_concurrency(stage: Stage) -> None:
    """B5: as many users at once as configured, and no more."""
    together = asyncio.Barrier(3)
    most = now = 0

    async def run(held: Claim) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await together.wait()
        now -= 1
        await stage.finish(held)

    await stage.submit(*(transcript(user=f"u{n}") for n in range(6)))
    await stage.worker(run, concurrency=3).start()
    await stage.settled()
    assert most == 3
    assert await stage.states() == {"succeeded": 6}


async def test_the_commit_of_a_zombie_is_refused(stage: Stage) -> None:
    """faults.md row 5: it slept past its lease in the model's call; nothing of it is written."""
    await stage.submit(transcript(1, 4))
    (held,) = await stage.claim()
    slow = HeldChat()
    zombie = asyncio.create_task(stage.extraction(slow).run(held))
    await slow.thinking.wait()
    await stage.expire_leases()
    await stage.worker(stage.extraction(CanaryChat()).run).start()
    await stage.settled()
    before = await everything(stage, "usage_ledger")
    slow.go.set()
    with pytest.raises(ClaimLost):
        await zombie
    assert await everything(stage, "usage_ledger") == before
    # What it asked has to be paid for all the same.
    assert await stage.value("SELECT sum(calls) FROM usage_ledger WHERE stage = 'extraction'") == 2
    assert [each[2] for each in await stage.memories()] == [1, 1]
    row = await stage.job(held.job_id)
    assert (row["state"], row["attempt"]) == ("succeeded", 2)


def backgrounds() -> list[PromptBackground]:
    return [each for each in gc.get_objects() if isinstance(each, PromptBackground)]


async def test_what_the_first_call_was_told_about_the_user_is_let_go(stage: Stage) -> None:
    """It includes opened sealed memories, and a job of many calls may take an hour."""
    await stage.submit(transcript(1, 4))
    (held,) = await stage.claim()
    # Whatever earlier tests left behind.
    before = backgrounds()
    told: list[int] = []

    class Watching(CanaryChat):
        async def complete(self, prompt: Prompt) -> Completion:
            told.append(len(backgrounds()) - len(before))
            return await super().complete(prompt)

    await stage.extraction(Watching(), batch_tokens=50).run(held)
    assert told == [1, 0]


async def test_a_worker_that_dies_between_two_calls_repeats_neither(stage: Stage) -> None:
    """B3: a job of several calls commits call by call and goes on where it was."""
    await stage.submit(transcript(1, 6))
    (held,) = await stage.claim()
    chat = CanaryChat()

    class DiesAtThird(CanaryChat):
        async def complete(self, prompt: Prompt) -> Completion:
            if self.calls == 2:
                raise asyncio.CancelledError
            return await super().complete(prompt)

    first = DiesAtThird()
    with pytest.raises(asyncio.CancelledError):
        await stage.extraction(first, batch_tokens=50).run(held)
    assert len(first.asked) == 4
    assert (await stage.job(held.job_id))["done_to"] == 4
    await stage.expire_leases()
    await stage.worker(stage.extraction(chat, batch_tokens=50).run).start()
    await stage.settled()
    assert chat.asked == {"canary:w5": 1, "canary:w6": 1}
    assert [each[1:] for each in await stage.memories()] == [
        (f"The user mentioned canary:w{n}.", 1) for n in (1, 3, 5)
    ]
    assert (await stage.job(held.job_id))["result"]["memories_created"] == 3


@pytest.mark.parametrize(
    ("sqlstate", "attempt"),
    [
        pytest.param("53100", 1, id="disk_full_burns_no_attempt"),
        pytest.param("P0001", 4, id="a_fault_of_ours_burns_them"),
    ],
)
async def test_a_write_that_fails_half_way_leaves_nothing(
    stage: Stage,
    sqlstate: str,
    attempt: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """faults.md rows 2 and 20: the last write of the commit fails; the rest is not there either."""
    monkeypatch.setattr(job_commit, "_PAUSES", (0.0,))
    await stage.rows(
        "CREATE FUNCTION public.broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" RAISE EXCEPTION 'broken' USING ERRCODE = '{sqlstate}'; END $$"
    )
    await stage.rows(
        "CREATE TRIGGER broken BEFORE INSERT ON conversation_summaries FOR EACH ROW"
        " EXECUTE FUNCTION public.broken()"
    )
    await stage.submit(transcript(1, 2))
    before = await everything(stage, "jobs", "usage_ledger")
    chat = CanaryChat()
    await stage.worker(stage.extraction(chat).run).start()
    await eventually(lambda: asked(chat, 4))
    told = {getattr(record, "sqlstate", None) for record in caplog.records}
    if sqlstate == "P0001":
        assert told == {None}
        await stage.settled()
        assert await stage.rows("SELECT state, error FROM jobs") == [
            ("dead", "INTERNAL: RaiseException")
        ]
    assert await everything(stage, "jobs", "usage_ledger") == before
    await stage.rows("DROP TRIGGER broken ON conversation_summaries")
    if sqlstate == "53100":
        assert told == {None, sqlstate}
        await stage.settled()
        assert await stage.states() == {"succeeded": 1}
        assert len(await stage.memories()) == 1
    assert await stage.value("SELECT attempt FROM jobs") == attempt


async def test_trouble_with_the_database_never_ends_a_job_and_slows_it_down(stage: Stage) -> None:
    """faults.md row 20: however often, and although a day has passed; with the reason told."""
    await stage.submit(transcript(1, 2))
    tries = 0

    async def run(held: Claim) -> None:
        nonlocal tries
        tries += 1
        assert held.attempt == 1
        raise Exhausted("the database has no room", reason="STORAGE_FULL")

    worker = stage.worker(run)
    await worker.start()
    # Each wait is as long as the outage so far: more tries than this take their time.
    await eventually(lambda: tried(lambda: tries >= 3))
    # After two days of it: tried again, and still no attempt is counted.
    await eventually(lambda: made_old(stage))
    await eventually(lambda: long_wait(stage))
    assert await stage.rows("SELECT state, attempt, error FROM jobs") == [
        ("failed", 0, "STORAGE_FULL: the database has no room")
    ]
    assert await stage.value("SELECT run_after <= now() + interval '300 seconds' FROM jobs")


async def tried(often_enough: Callable[[], bool]) -> bool:
    """Whether a runner was called often enough."""
    return often_enough()


async def made_old(stage: Stage) -> bool:
    """Whether a waiting job was found and made to look as if it had waited for two days."""
    return bool(
        await stage.rows(
            "UPDATE jobs SET outage_since = now() - interval '2 days', run_after = now()"
            " WHERE state = 'failed' RETURNING job_id"
        )
    )


async def long_wait(stage: Stage) -> bool:
    """Whether a job waits for minutes."""
    return bool(
        await stage.value(
            "SELECT state = 'failed' AND run_after > now() + interval '4 minutes' FROM jobs"
        )
    )


async def test_an_outcome_waits_for_the_database_and_costs_no_attempt(stage: Stage) -> None:
    """faults.md row 20: the hand-back itself fails at first; the job does not die of it."""
    await stage.submit(transcript(1, 2))
    away = True

    class Away(Database):
        refused = 0

        async def run(self, work: Any, *, timeout: float, repeatable: bool = False) -> Any:
            if away and "Worker._end." in work.__qualname__:
                self.refused += 1
                raise TooLate("no answer", reason="DEADLINE_EXCEEDED")
            return await super().run(work, timeout=timeout, repeatable=repeatable)

    database = await stage.pool(Away(stage.conninfo, "hitherto_maintenance", application="test"))
    runs: list[int] = []

    async def run(held: Claim) -> None:
        runs.append(held.attempt)
        if len(runs) < 3:
            raise TooLate("no answer", reason="DEADLINE_EXCEEDED")
        await stage.finish(held)

    worker = stage.worker(run, database=database)
    await worker.start()
    await eventually(lambda: tried(lambda: database.refused >= 2))
    away = False
    await stage.settled()
    assert runs == [1, 1, 1]
    assert await stage.states() == {"succeeded": 1}


async def asked(chat: CanaryChat, times: int) -> bool:
    """Whether the model was called so often."""
    return chat.calls >= times


async def test_backoff_grows_and_is_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """B5: exponential with jitter of a quarter; no failure waits longer than the bound."""
    waits: list[float] = []
    fail = attempts.fail

    async def noted(
        connection: Connection, held: Claim, *, delay_seconds: float, **why: Any
    ) -> None:
        waits.append(delay_seconds)
        await fail(connection, held, delay_seconds=0, **why)

    async def run(held: Claim) -> None:
        raise ModelRefused("x")

    monkeypatch.setattr(attempts, "fail", noted)
    await stage.submit(transcript(1, 2))
    await stage.worker(run, backoff_seconds=100.0).start()
    await stage.settled()
    assert await stage.states() == {"dead": 1}
    first, second, third, _ = waits
    assert 75 <= first <= 125
    assert 150 <= second <= 250
    assert attempts.MAX_BACKOFF_SECONDS * 0.75 <= third <= attempts.MAX_BACKOFF_SECONDS * 1.25


async def test_later_evidence_is_not_overwritten_by_a_range_run_again(stage: Stage) -> None:
    """Contract "Ranges": RetryJob runs a skipped range after later ones; nothing is doubled."""
    first = await stage.submit(transcript(1, 4))
    async with stage.maintenance.connection() as connection:
        await jobs.cancel_job(connection, TENANT, first.jobs[0].job_id)
    await stage.submit(transcript(3, 8))
    chat = CanaryChat()
    await stage.worker(stage.extraction(chat).run).start()
    await stage.settled()
    assert sorted(chat.asked) == [f"canary:w{n}" for n in range(5, 9)]
    async with stage.maintenance.connection() as connection:
        await jobs.retry_job(connection, TENANT, first.jobs[0].job_id)
    stage.signals.wake()
    await stage.settled()
    assert chat.asked == {f"canary:w{n}": 1 for n in range(1, 9)}
    assert [each[2] for each in await stage.memories()] == [1, 1, 1, 1]
    assert await stage.value("SELECT count(*) FROM messages") == len([message(n) for n in range(8)])


async def everything(stage: Stage, *but: str) -> list[tuple[str, int, str]]:
    """Number of rows and a fingerprint of every table, but for some."""
    tables = await stage.rows(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'hitherto'"
        " AND tablename <> ALL(%s) ORDER BY 1",
        list(but),
    )
    return [
        (
            name,
            *(
                await stage.rows(
                    f"SELECT count(*), coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '')"
                    f" FROM {name} AS t"
                )
            )[0],
        )
        for (name,) in tables
    ]


async def test_every_attempt_leaves_one_line_in_the_log(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """What an operator searches for: kind, attempt, outcome, duration, and the user's hash."""
    fails = True

    async def run(held: Claim) -> None:
        nonlocal fails
        if fails:
            fails = False
            raise ModelRefused("no")
        await stage.finish(held)

    def ended() -> list[dict[str, Any]]:
        return [vars(line) for line in caplog.records if line.msg == "attempt at a job ended"]

    async def all_logged() -> bool:
        return len(ended()) == 2

    await stage.submit(transcript(1, 1, user="ana-canary"))
    with caplog.at_level("INFO", logger="hitherto"):
        await stage.worker(run, trail=Trail(b"k" * 32)).start()
        await stage.settled()
        # The job ends in the database before its worker logs it.
        await eventually(all_logged)
    told = [(line["attempt"], line["outcome"]) for line in ended()]
    assert told == [(1, "model_refused"), (2, "succeeded")]
    assert all(line["kind"] == "memory-extraction" for line in ended())
    assert all(line["seconds"] >= 0 for line in ended())
    assert len({line["user_hash"] for line in ended()}) == 1
    assert "canary" not in str(ended())
