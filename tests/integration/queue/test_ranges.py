"""Ranges of jobs over random histories: requirement B3, contract "Ranges"."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from hitherto_extraction.queue import attempts, jobs
from hitherto_shared.models import Scope
from tests.integration.queue.chat import CanaryChat
from tests.integration.queue.stage import BOUND, TENANT, Stage, message, transcript

STEPS = 200
CONVERSATIONS = [("ana", "c1"), ("ana", "c2"), ("bob", "c1")]


async def check_ranges(stage: Stage) -> None:
    """What the jobs own lies end to end from 1 to the watermark; numbers have no gaps."""
    for user, conversation, last, watermark, numbers in await stage.rows(
        "SELECT user_id, conversation_id, last_message_no, watermark, (SELECT array_agg(message_no"
        " ORDER BY message_no) FROM messages AS m WHERE m.user_id = c.user_id"
        " AND m.conversation_id = c.conversation_id) FROM conversations AS c"
    ):
        owned = await stage.rows(
            "SELECT range_from, range_to FROM jobs WHERE user_id = %s AND conversation_id = %s"
            " AND range_to >= range_from ORDER BY range_from",
            user,
            conversation,
        )
        end = 0
        for range_from, range_to in owned:
            assert range_from == end + 1, (user, conversation, owned)
            end = range_to
        assert end == watermark, (user, conversation, owned)
        assert watermark <= last
        assert numbers == list(range(1, last + 1))
        waiting = await stage.value(
            "SELECT count(*) FROM jobs WHERE user_id = %s AND conversation_id = %s"
            " AND range_to IS NULL AND state IN ('queued', 'failed', 'running')",
            user,
            conversation,
        )
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
        """Do something."""
        steps = [self.submit, self.append, self.append, self.end, self.run, self.fail, self.lose]
        await self._dice.choice(steps)()

    async def submit(self) -> None:
        """Submit a part of a conversation, old or new or both."""
        user, conversation, first, last = self._part()
        await self._stage.submit(
            transcript(
                first, last, user=user, conversation=conversation, ended=self._dice.random() < 0.2
            )
        )

    async def append(self) -> None:
        """Append messages, some of which may be known."""
        user, conversation, first, last = self._part()
        messages = [message(n) for n in range(first, last + 1)]
        await self._intake.append(Scope(TENANT, user), conversation, messages, None, timeout=BOUND)

    async def end(self) -> None:
        """End a conversation that exists."""
        if self.sent:
            user, conversation = self._dice.choice(sorted(self.sent))
            await self._intake.end(Scope(TENANT, user), conversation, None, timeout=BOUND)

    async def run(self) -> None:
        """Run what may start."""
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
