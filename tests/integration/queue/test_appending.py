"""Messages of a running chat: requirement B2; faults.md row 38; contract "Ranges"."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from hitherto_extraction.queue import attempts, jobs
from hitherto_extraction.sweeps import Sweeps
from hitherto_shared.models import Scope
from tests.integration.queue.chat import CanaryChat
from tests.integration.queue.stage import ANA, BOUND, TENANT, Stage, message, transcript


async def append(stage: Stage, first: int, last: int, *, role: str = "", **rules: Any) -> int:
    """Append messages and return how many wait."""
    accepted = await stage.intake(**rules).append(
        ANA, "c1", [message(n, role=role) for n in range(first, last + 1)], None, timeout=BOUND
    )
    return accepted.pending_messages


async def run_all(stage: Stage) -> CanaryChat:
    """Run every job and return the model that was asked."""
    chat = CanaryChat()
    worker = stage.worker(stage.extraction(chat).run)
    await worker.start()
    await stage.settled()
    await worker.stop(BOUND)
    return chat


async def counters(stage: Stage) -> tuple[int, int, bool]:
    """The conversation's last number, its watermark and whether it has ended."""
    ((last, watermark, ended),) = await stage.rows(
        "SELECT last_message_no, watermark, ended_at IS NOT NULL FROM conversations"
    )
    return last, watermark, ended


async def test_only_what_people_and_the_assistant_say_counts(stage: Stage) -> None:
    """B2: N counts user and assistant messages; tool and system ones come along."""
    assert await append(stage, 1, 4) == 4
    assert await append(stage, 5, 20, role="tool") == 4
    assert await append(stage, 21, 30, role="system") == 4
    assert await append(stage, 31, 35) == 9
    assert await stage.states() == {}
    assert await append(stage, 36, 36) == 10
    assert await stage.states() == {"queued": 1}
    chat = await run_all(stage)
    assert sum(chat.asked.values()) == 36
    assert await counters(stage) == (36, 36, False)


async def test_appending_again_changes_nothing(stage: Stage) -> None:
    """B4: message ids de-duplicate appended messages too."""
    assert await append(stage, 1, 3) == 3
    assert await append(stage, 1, 3) == 3
    assert await append(stage, 2, 5) == 5
    assert await counters(stage) == (5, 0, False)


async def test_concurrent_appends_are_numbered_in_commit_order_without_gaps(stage: Stage) -> None:
    """Contract "Ranges": numbers come from the conversation's counter, under its lock."""
    await asyncio.gather(
        *(
            stage.intake(extract_every=1_000).append(
                ANA, "c1", [message(2 * n + 1), message(2 * n + 2)], None, timeout=BOUND
            )
            for n in range(30)
        )
    )
    rows = await stage.rows(
        "SELECT message_no, message_id, xmin::text::bigint FROM messages ORDER BY message_no"
    )
    assert [row[0] for row in rows] == list(range(1, 61))
    pairs = [(rows[i], rows[i + 1]) for i in range(0, 60, 2)]
    for one, two in pairs:
        assert int(one[1][1:]) + 1 == int(two[1][1:])
        assert one[2] == two[2]
    assert await counters(stage) == (60, 0, False)


async def test_the_debounce_pushes_back_and_is_bounded(stage: Stage) -> None:
    """B2: a burst settles first, but never longer than ten times the debounce."""
    await append(stage, 1, 1, extract_every=1, debounce_seconds=100.0)
    job_id, first = (await stage.rows("SELECT job_id, run_after FROM jobs"))[0]
    await append(stage, 2, 2, extract_every=1, debounce_seconds=100.0)
    pushed = await stage.value("SELECT run_after FROM jobs")
    assert pushed > first
    assert await stage.claim() == []
    await stage.rows("UPDATE jobs SET created_at = clock_timestamp() - interval '950 seconds'")
    await append(stage, 3, 3, extract_every=1, debounce_seconds=100.0)
    assert await stage.value("SELECT run_after = created_at + interval '1000 seconds' FROM jobs")
    await stage.rows("UPDATE jobs SET created_at = clock_timestamp() - interval '1001 seconds'")
    await append(stage, 4, 4, extract_every=1, debounce_seconds=100.0)
    (held,) = await stage.claim()
    assert held.job_id == job_id


async def test_appending_does_not_hurry_a_job_that_waits_for_its_retry(stage: Stage) -> None:
    """An open job that failed keeps its back-off."""
    await append(stage, 1, 1, extract_every=1)
    (held,) = await stage.claim()
    async with stage.maintenance.connection() as connection:
        await attempts.fail(connection, held, error="x", reason="INTERNAL", delay_seconds=500)
    before = await stage.rows("SELECT job_id, state, run_after FROM jobs")
    await append(stage, 2, 2, extract_every=1)
    assert await stage.rows("SELECT job_id, state, run_after FROM jobs") == before


async def test_two_replicas_sweep_an_idle_conversation_once(stage: Stage) -> None:
    """faults.md row 40 for the idle sweep: one job; conversations still in use are left alone."""
    await append(stage, 1, 3)
    await stage.intake().append(ANA, "busy", [message(1)], None, timeout=BOUND)
    await stage.rows(
        "UPDATE conversations SET updated_at = now() - interval '11 minutes'"
        " WHERE conversation_id = 'c1'"
    )
    replicas = [
        Sweeps(stage.maintenance, stage.intake(), stage.maintenance, idle_minutes=10) for _ in "ab"
    ]
    await asyncio.gather(*(sweeps.queue_idle() for sweeps in replicas))
    assert await stage.rows("SELECT conversation_id, range_to FROM jobs") == [("c1", None)]
    await run_all(stage)
    await asyncio.gather(*(sweeps.queue_idle() for sweeps in replicas))
    assert await stage.rows("SELECT range_from, range_to, state FROM jobs") == [(1, 3, "succeeded")]


async def test_an_idle_conversation_that_cannot_be_queued_keeps_no_other_waiting(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do as many as one look finds, which are the oldest."""
    monkeypatch.setattr("hitherto_extraction.sweeps._BATCH", 2)
    names = ["busy1", "busy2", "c1", "c2", "c3", "c4"]
    for each in names:
        await stage.intake().append(ANA, each, [message(1)], None, timeout=BOUND)
    await stage.rows("UPDATE conversations SET updated_at = updated_at - interval '1 hour'")
    await stage.rows(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END$$"
    )
    await stage.rows(
        "CREATE TRIGGER refuse BEFORE INSERT ON jobs FOR EACH ROW"
        " WHEN (NEW.conversation_id ^@ 'busy') EXECUTE FUNCTION refuse()"
    )
    await Sweeps(stage.maintenance, stage.intake(), stage.maintenance, idle_minutes=10).queue_idle()
    queued = await stage.rows("SELECT conversation_id FROM jobs ORDER BY 1")
    assert queued == [("c1",), ("c2",), ("c3",), ("c4",)]


async def test_ending_takes_the_rest_at_once_and_later_messages_reopen(stage: Stage) -> None:
    """Contract "Submitting": EndConversation does not wait for N, and is not the end for good."""
    await append(stage, 1, 3)
    ended = await stage.intake().end(ANA, "c1", None, timeout=BOUND)
    assert [(job.range_from, job.range_to) for job in ended.jobs] == [(1, 3)]
    assert await counters(stage) == (3, 3, True)
    again = await stage.intake().end(ANA, "c1", None, timeout=BOUND)
    assert again.jobs[0].job_id == ended.jobs[0].job_id
    assert await append(stage, 3, 3) == 0
    assert await counters(stage) == (3, 3, True)
    assert await append(stage, 4, 4) == 1
    assert await counters(stage) == (4, 3, False)


async def test_a_transcript_that_has_ended_ends_the_conversation(stage: Stage) -> None:
    """Contract "Submitting": `ended` is EndConversation, and takes appended messages along."""
    await append(stage, 1, 3)
    accepted = await stage.submit(transcript(4, 5, ended=True))
    assert [(job.range_from, job.range_to) for job in accepted.jobs] == [(1, 5)]
    assert await counters(stage) == (5, 5, True)
    await stage.submit(transcript(6, 6))
    assert await counters(stage) == (6, 6, False)


async def test_the_range_of_an_open_job_is_fixed_when_it_first_runs(stage: Stage) -> None:
    """Contract "Ranges": what comes before the first claim is in, what comes later is not."""
    await append(stage, 1, 2, extract_every=2)
    assert await stage.rows("SELECT range_from, range_to FROM jobs") == [(None, None)]
    await append(stage, 3, 5, extract_every=2)
    chat = await run_all(stage)
    assert await stage.rows("SELECT range_from, range_to FROM jobs") == [(1, 5)]
    assert sum(chat.asked.values()) == 5
    await append(stage, 6, 7, extract_every=2)
    chat = await run_all(stage)
    assert chat.asked == {"canary:w6": 1, "canary:w7": 1}
    assert await stage.rows("SELECT range_from, range_to FROM jobs ORDER BY sequence_no") == [
        (1, 5),
        (6, 7),
    ]


async def test_a_failed_open_job_keeps_its_range(stage: Stage) -> None:
    """Contract "Ranges": a retry runs the same messages; later ones get a job of their own."""
    await append(stage, 1, 2, extract_every=2)
    (held,) = await stage.claim()
    chat = CanaryChat()
    chat.failing = RuntimeError("out of order")
    with pytest.raises(RuntimeError):
        await stage.extraction(chat).run(held)
    async with stage.maintenance.connection() as connection:
        await attempts.fail(connection, held, error="x", reason="INTERNAL", delay_seconds=0)
    await append(stage, 3, 4, extract_every=2)
    await run_all(stage)
    assert await stage.rows(
        "SELECT range_from, range_to, state FROM jobs ORDER BY sequence_no"
    ) == [(1, 2, "succeeded"), (3, 4, "succeeded")]


async def test_an_open_job_handed_back_before_it_took_its_messages(stage: Stage) -> None:
    """I2: appending while it runs must not keep it from being handed back."""
    await append(stage, 1, 1, extract_every=1)
    (held,) = await stage.claim()
    await append(stage, 2, 2, extract_every=1)
    async with stage.maintenance.connection() as connection:
        await attempts.release(connection, held)
    assert await stage.states() == {"queued": 1}
    chat = await run_all(stage)
    assert chat.asked == {"canary:w1": 1, "canary:w2": 1}
    assert await counters(stage) == (2, 2, False)


async def test_a_transcript_takes_what_an_open_job_waits_for(stage: Stage) -> None:
    """A submitted range takes the waiting messages along; the open job then finds nothing."""
    await append(stage, 1, 10, debounce_seconds=0.2)
    (open_job,) = await stage.rows("SELECT job_id FROM jobs")
    accepted = await stage.submit(transcript(8, 12))
    assert [(job.range_from, job.range_to) for job in accepted.jobs] == [(1, 12)]
    chat = await run_all(stage)
    assert chat.asked == {f"canary:w{n}": 1 for n in range(1, 13)}
    assert await stage.states() == {"succeeded": 2}
    emptied = await stage.job(open_job[0])
    assert emptied["range_to"] < emptied["range_from"]
    assert await counters(stage) == (12, 12, False)


async def test_memory_switched_off_keeps_a_range_for_a_retry(stage: Stage) -> None:
    """Later jobs skip a CANCELLED range; what comes after it is not held up by it."""
    await stage.submit(transcript(1, 2))
    (held,) = await stage.claim()
    async with stage.maintenance.connection() as connection:
        await attempts.discard(connection, held, "MEMORY_DISABLED")
    later = await stage.intake().submit(TENANT, [transcript(1, 4)], None, timeout=BOUND)
    assert [(job.range_from, job.range_to) for job in later.jobs] == [(3, 4)]


# Ranges of jobs over random histories: requirement B3, contract "Ranges".


STEPS = 200
CONVERSATIONS = [("ana", "c1"), ("ana", "c2"), ("bob", "c1")]
_RANGES = """
SELECT c.user_id, c.conversation_id, c.last_message_no, c.watermark,
       (SELECT array_agg(message_no ORDER BY message_no) FROM messages AS m
        WHERE (m.user_id, m.conversation_id) = (c.user_id, c.conversation_id)),
       (SELECT coalesce(array_agg(ARRAY[range_from, range_to] ORDER BY range_from), '{}')
        FROM jobs AS j WHERE (j.user_id, j.conversation_id) = (c.user_id, c.conversation_id)
          AND range_to >= range_from),
       (SELECT count(*) FROM jobs AS j
        WHERE (j.user_id, j.conversation_id) = (c.user_id, c.conversation_id)
          AND range_to IS NULL AND state IN ('queued', 'failed', 'running'))
FROM conversations AS c
"""


async def check_ranges(stage: Stage) -> None:
    """What the jobs own lies end to end from 1 to the watermark; numbers have no gaps."""
    for user, conversation, last, watermark, numbers, owned, waiting in await stage.rows(_RANGES):
        end = 0
        for range_from, range_to in owned:
            assert range_from == end + 1, (user, conversation, owned)
            end = range_to
        assert end == watermark, (user, conversation, owned)
        assert watermark <= last
        assert numbers == list(range(1, last + 1))
        assert waiting <= 1


class History:
    """Conversations and jobs going through one random step after another."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.sent: Counter[tuple[str, str]] = Counter()
        self.chat = CanaryChat()
        self._stage = stage
        self._intake = stage.intake(extract_every=4)
        self._dice = random.Random(seed)

    async def step(self) -> None:
        steps = [self.submit, self.append, self.append, self.end, self.run, self.fail, self.lose]
        await self._dice.choice(steps)()

    async def submit(self) -> None:
        user, conversation, first, last = self._part()
        await self._stage.submit(
            transcript(
                first, last, user=user, conversation=conversation, ended=self._dice.random() < 0.2
            )
        )

    async def append(self) -> None:
        user, conversation, first, last = self._part()
        messages = [message(n) for n in range(first, last + 1)]
        await self._intake.append(Scope(TENANT, user), conversation, messages, None, timeout=BOUND)

    async def end(self) -> None:
        if self.sent:
            user, conversation = self._dice.choice(sorted(self.sent))
            await self._intake.end(Scope(TENANT, user), conversation, None, timeout=BOUND)

    async def run(self) -> None:
        for held in await self._stage.claim(2):
            await self._stage.extraction(self.chat).run(held)

    async def fail(self) -> None:
        """Fail one job, before it has taken its messages."""
        for held in await self._stage.claim(1):
            async with self._stage.maintenance.connection() as connection:
                await attempts.fail(connection, held, error="E: x", reason="E", delay_seconds=0)

    async def lose(self) -> None:
        """Claim a job and die."""
        await self._stage.claim(1)
        await self._stage.expire_leases()

    async def finish(self) -> None:
        """End everything, retry what is DEAD, run all."""
        for user, conversation in self.sent:
            await self._intake.end(Scope(TENANT, user), conversation, None, timeout=BOUND)
        for (job_id,) in await self._stage.rows(
            "SELECT job_id FROM jobs WHERE state = 'dead' AND range_to IS NOT NULL"
        ):
            async with self._stage.maintenance.connection() as connection:
                await jobs.retry_job(connection, TENANT, job_id)
        await self._stage.rows(
            "UPDATE jobs SET max_attempts = 100 WHERE state IN ('queued', 'failed', 'running')"
        )
        while not await self._stage.idle():
            await self.run()

    def _part(self) -> tuple[str, str, int, int]:
        user, conversation = self._dice.choice(CONVERSATIONS)
        known = self.sent[user, conversation]
        first = max(1, known + 1 - self._dice.randint(0, 4))
        last = max(first, known + self._dice.randint(0, 4))
        self.sent[user, conversation] = max(known, last)
        return user, conversation, first, last


@pytest.mark.parametrize("seed", [1, 2])
async def test_ranges_lie_end_to_end_whatever_happens(stage: Stage, seed: int) -> None:
    """Submit, append, end, run, fail and lose workers, 200 steps in any order."""
    history = History(stage, seed)
    for _ in range(STEPS):
        await history.step()
        await check_ranges(stage)
    await history.finish()
    await check_ranges(stage)
    assert history.sent == {
        (user, conversation): last
        for user, conversation, last in await stage.rows(
            "SELECT user_id, conversation_id, watermark FROM conversations"
        )
    }
    # Every message was part of exactly one question.
    assert history.chat.asked == Counter(
        f"canary:w{n}" for last in history.sent.values() for n in range(1, last + 1)
    )
    assert {(user, content) for user, content, _ in await stage.memories()} == {
        (user, f"The user mentioned canary:w{n}.")
        for (user, _), last in history.sent.items()
        for n in range(1, last + 1, 2)
    }
