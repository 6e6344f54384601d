"""Writes that are committed and reported as lost: faults.md row 4, promise 2."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle
from typing import Any
from uuid import UUID

import pytest
from psycopg.errors import TooManyConnections
from psycopg_pool import PoolTimeout

from hitherto_extraction.pipeline import job_commit
from hitherto_extraction.queue.claims import Claim, ClaimLost
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_shared.database.connect import Role
from hitherto_shared.database.pool import Connection, Database, Result
from hitherto_shared.errors import Conflict, HithertoError, TooLate
from hitherto_shared.startup import configure_vectors
from tests.integration.queue.chat import CanaryChat
from tests.integration.queue.stage import ANA, BOUND, TENANT, Stage, identity, message, transcript
from tests.waiting import eventually

USERS = 15
TRANSCRIPTS_PER_USER = 12


class Forgetful(Database):
    """Does the work, commits it, and then at times says that it failed.

    Attributes:
        lies: How often that happened.
    """

    def __init__(
        self,
        conninfo: str,
        role: Role,
        *,
        chance: float,
        seed: int,
        denied: Callable[[Any], Awaitable[None]] | None = None,
        faults: Sequence[type[TooLate | Conflict]] = (TooLate,),
    ) -> None:
        super().__init__(conninfo, role, application="test", configure=configure_vectors)
        self.lies = 0
        self._denied = denied
        self._faults = cycle(faults)
        self._chance = chance
        self._dice = random.Random(seed)

    async def run(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        *,
        timeout: float,
        repeatable: bool = False,
    ) -> Result:
        done = await super().run(work, timeout=timeout, repeatable=repeatable)
        if self._dice.random() < self._chance:
            self.lies += 1
            if self._denied is not None:
                await self._denied(done)
            fault = next(self._faults)
            raise fault("the database did not answer in time", reason="DEADLINE_EXCEEDED")
        return done


async def test_writes_reported_as_lost_are_neither_lost_nor_doubled(stage: Stage) -> None:
    """faults.md row 4: a client that repeats its key and a worker that repeats its call."""
    border = await stage.pool(Forgetful(stage.conninfo, "hitherto_write", chance=0.2, seed=1))
    # The second of each pair as if another writer had been in the way.
    both = (TooLate, Conflict)
    effects = await stage.pool(
        Forgetful(stage.conninfo, "hitherto_write", chance=0.05, seed=2, faults=both)
    )

    async def expire(done: Any) -> None:
        """What was claimed and denied nobody runs: its lease is over here and now, and no other."""
        if isinstance(done, list) and all(isinstance(held, Claim) for held in done):
            await stage.expire_leases(*(held.job_id for held in done))

    queue = await stage.pool(
        Forgetful(stage.conninfo, "hitherto_maintenance", chance=0.02, seed=3, denied=expire)
    )
    intake = stage.intake(border, queue=JobQueue(20))
    ledger: dict[tuple[str, str], UUID] = {}

    async def client(user: str) -> None:
        for n in range(TRANSCRIPTS_PER_USER):
            sent = transcript(2 * n + 1, 2 * n + 2, user=user, conversation=f"c{n % 3}")
            while True:
                try:
                    accepted = await intake.submit(
                        TENANT, [sent], identity(f"{user}-{n}"), timeout=BOUND
                    )
                except TooLate:
                    continue
                break
            ledger[user, f"canary:w{2 * n + 1}"] = accepted.jobs[0].job_id

    chat = CanaryChat()
    for _ in range(3):
        await stage.worker(stage.extraction(chat, database=effects).run, database=queue).start()
    await asyncio.gather(*(client(f"u{n}") for n in range(USERS)))
    await stage.settled()

    assert min(border.lies, effects.lies, queue.lies) > 0
    # L1: every acknowledged transcript has its job, each its own, and all are done.
    assert len(set(ledger.values())) == len(ledger) == USERS * TRANSCRIPTS_PER_USER
    assert await stage.states() == {"succeeded": len(ledger)}
    # L2: each canary is in one memory, written once.
    assert await stage.memories() == sorted(
        (user, f"The user mentioned {canary}.", 1) for user, canary in ledger
    )
    # A job reports what it did, and no call is charged twice.
    assert await stage.rows(
        "SELECT DISTINCT result -> 'memories_created', result -> 'usage' -> 'llm_calls' FROM jobs"
    ) == [(1, 1)]
    charged = await stage.value("SELECT sum(calls) FROM usage_ledger WHERE stage = 'extraction'")
    assert len(ledger) <= charged <= chat.calls
    # L5: nobody holds a transaction open; that of a worker that looks for work ends by itself.

    async def all_closed() -> bool:
        return not await stage.value(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND state LIKE 'idle in transaction%%'"
        )

    await eventually(all_closed)
    # L7: a call is repeated for a lie and for nothing else.
    assert chat.calls <= 2 * len(ledger)


class Unlucky(Database):
    """Meets these errors at its commits of a job's step, one after another.

    The work of the first is done and committed, if `done` says so.
    """

    def __init__(self, conninfo: str, *errors: Exception, done: bool = False) -> None:
        super().__init__(
            conninfo, "hitherto_write", application="test", configure=configure_vectors
        )
        self._errors = list(errors)
        self._done = done

    async def run(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        *,
        timeout: float,
        repeatable: bool = False,
    ) -> Result:
        if self._errors and work.__qualname__ == "commit.<locals>.work":
            if self._done:
                self._done = False
                await super().run(work, timeout=timeout, repeatable=repeatable)
            raise self._errors.pop(0)
        return await super().run(work, timeout=timeout, repeatable=repeatable)


async def test_a_reply_waits_for_a_connection_of_a_busy_pool(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """faults.md L7: it has been paid for, and the pool is busy for a moment."""
    monkeypatch.setattr(job_commit, "_PAUSES", (0.0, 0.0, 0.0))
    busy = await stage.pool(
        Unlucky(stage.conninfo, PoolTimeout("busy"), TooManyConnections("busy"))
    )
    await stage.submit(transcript())
    (held,) = await stage.claim()
    chat = CanaryChat()
    await stage.extraction(chat, database=busy).run(held)
    assert await stage.states() == {"succeeded": 1}
    assert chat.calls == 1


@pytest.mark.parametrize("claim_is_lost", [False, True])
async def test_a_commit_in_doubt_keeps_its_result_whatever_its_repetitions_meet(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, claim_is_lost: bool
) -> None:
    """faults.md row 4: nothing is charged twice, and the job still says what it did."""
    monkeypatch.setattr(job_commit, "_PAUSES", (0.0, 0.0, 0.0))
    lost = TooLate("no answer", reason="DEADLINE_EXCEEDED")
    in_the_way = [Conflict("in the way", reason="WRITE_CONFLICT") for _ in range(3)]
    met = [ClaimLost()] if claim_is_lost else in_the_way
    database = await stage.pool(Unlucky(stage.conninfo, lost, *met, done=True))
    await stage.submit(transcript())
    (held,) = await stage.claim()
    with pytest.raises(ClaimLost if claim_is_lost else HithertoError):
        await stage.extraction(CanaryChat(), database=database).run(held)
    result = (await stage.job(held.job_id))["result"]
    assert (result["memories_created"], result["usage"]["llm_calls"]) == (1, 1)
    assert await stage.value("SELECT sum(calls) FROM usage_ledger WHERE stage = 'extraction'") == 1


async def test_appends_reported_as_lost_keep_their_numbers(stage: Stage) -> None:
    """faults.md row 4 for AppendMessages: ids alone are enough, with or without a key."""
    border = await stage.pool(Forgetful(stage.conninfo, "hitherto_write", chance=0.4, seed=4))
    intake = stage.intake(border)
    for n in range(1, 41):
        while True:
            try:
                await intake.append(ANA, "c1", [message(n)], None, timeout=BOUND)
            except TooLate:
                continue
            break
    assert border.lies > 0
    assert await stage.rows("SELECT message_no, message_id FROM messages ORDER BY 1") == [
        (n, f"m{n}") for n in range(1, 41)
    ]
