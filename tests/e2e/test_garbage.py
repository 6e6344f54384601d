"""Garbage from the model changes nothing that is known (R2, faults 26-31, 71, 73)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf import json_format

from hitherto.v1 import conversation_pb2, job_pb2, memory_pb2
from hitherto_extraction.pipeline.caps import DAILY_CHANGES, allowed_changes
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.learning import ALL_STATUSES, ended, memories, submit, talk
from tests.e2e.methods import ask
from tests.scripted_model import ScriptedModel
from tests.scripted_model.garbage import GARBAGE, GRADUAL, UNUSABLE, as_text, garbage_script

KNOWN = 30
AT_ONCE = 4
HELLO = "Hello. I am Ansel in Porto, and collect old instruments for Ilse in my museum."
GRADUAL_JOBS = 11
"""Of the kind that gets through, as many as would close all; one job of any other."""


@pytest.fixture
async def patient(start_services: StartServices, model: ScriptedModel) -> AsyncIterator[Services]:
    model.script = garbage_script
    settings = {**model_settings(model), "job_max_retries": 1, "consolidate_above": 1_000}
    async with start_services(**settings) as services:
        yield services


async def profile_of(services: Services, user: str) -> dict[str, Any]:
    told: dict[str, Any] = json_format.MessageToDict(
        (await ask(services, "GetProfile", user_id=user)).profile
    )
    return {key: value for key, value in told.items() if key != "lastExtractedAt"}


async def known_of(services: Services, user: str) -> dict[str, memory_pb2.Memory]:
    found = await memories(services, user=user, statuses=ALL_STATUSES)
    return {each.id: each for each in found}


class Case:
    """One kind of garbage and the user who meets it."""

    def __init__(self, services: Services, kind: str) -> None:
        self.kind = kind
        self._services = services
        self.wrong: list[str] = []

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(f"{self.kind}: {what}")

    async def run(self) -> None:
        services, user = self._services, self.kind
        await self._run(talk(HELLO, user=user))
        before, profile = await known_of(services, user), await profile_of(services, user)
        self.expect(len(before) == KNOWN, "seeds")
        self.expect({"summary", "currentProjects", "facts"} <= profile.keys(), "profile")
        count = GRADUAL_JOBS if self.kind == GRADUAL else 1
        for n in range(count):
            bertha = ("assistant", "Bertha, the neighbour, is bankrupt, and keeps it all badly.")
            said = talk(as_text(self.kind), bertha, user=user, conversation=f"g{n}")
            self._judge_job(await self._run(said))
        after = await known_of(services, user)
        self.expect(await profile_of(services, user) == profile, "the profile changed")
        self._judge(before, after, count)
        if self.kind in UNUSABLE:
            return
        for n in reversed(range(count)):
            await ask(services, "RollbackSource", user_id=user, conversation_id=f"g{n}")
        last = await known_of(services, user)
        for memory_id, was in before.items():
            now = last[memory_id]
            same = (now.content, now.status) == (was.content, was.status)
            self.expect(same, f"rolled back: {was.content} / {now.content} {now.status}")

    async def _run(self, said: conversation_pb2.Transcript) -> job_pb2.Job:
        (job_id,) = await submit(self._services, said)
        return await ended(self._services, job_id, within=900)

    def _judge_job(self, job: job_pb2.Job) -> None:
        if self.kind in UNUSABLE:
            dead = job.state == job_pb2.JOB_STATE_DEAD and job.error.startswith("MODEL_UNUSABLE")
            self.expect(dead, f"{job.state} {job.error}")
            return
        self.expect(job.state == job_pb2.JOB_STATE_SUCCEEDED, f"{job.state} {job.error}")
        result = job.result
        changed = result.counts["refined"] + result.memories_contradicted + result.goals_achieved
        self.expect(changed <= allowed_changes(KNOWN), f"{changed} changes in one job")
        refused = result.dropped_items + sum(
            count for name, count in result.counts.items() if name.startswith("importance_")
        )
        quiet = ("profile_of_nothing", "profile_without_a_bottom", "said_anew_with_more", GRADUAL)
        self.expect(refused > 0 or self.kind in quiet, "nothing is counted")

    def _judge(
        self, before: dict[str, memory_pb2.Memory], after: dict[str, memory_pb2.Memory], jobs: int
    ) -> None:
        closed = 0
        for memory_id, was in before.items():
            now = after[memory_id]
            closed += now.status != was.status
            self.expect(now.content == was.content, f"{was.content} became {now.content}")
            least = max(0.3, was.importance - jobs * 0.2 - 1e-9)
            self.expect(now.importance >= least, f"importance {now.importance}")
        most = DAILY_CHANGES if self.kind == GRADUAL else 0
        self.expect(closed <= most, f"{closed} of {KNOWN} closed")
        passes = self.kind != GRADUAL or closed > allowed_changes(KNOWN)
        self.expect(passes, "the caps let nothing pass")
        made = [after[each].content for each in after.keys() - before.keys()]
        self.expect(not made or self.kind not in UNUSABLE, f"made {made}")


async def test_r2_garbage_changes_no_content_and_no_profile(patient: Services) -> None:
    """Every kind meets a user with thirty good memories, some at the same time."""
    assert len(GARBAGE) >= 60
    cases = [Case(patient, kind) for kind in GARBAGE]
    few = asyncio.Semaphore(AT_ONCE)

    async def run(case: Case) -> None:
        async with few:
            await case.run()

    await asyncio.gather(*map(run, cases))
    wrong = [each for case in cases for each in case.wrong]
    assert not wrong, "\n".join(wrong)
