"""EraseUser against whatever is in flight (bar R4, faults.md row 55): the user stays gone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import psycopg

from hitherto.v1 import extraction_service_pb2 as extraction
from tests.e2e.canaries import naming
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import save
from tests.e2e.learning import ended, learn, rows, submit, talk
from tests.e2e.leaving import erase, until
from tests.e2e.methods import read_refusal
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ScriptedModel, SlowDrip

USER = "kanari-person"


@asynccontextmanager
async def holding(conninfo: str, user: str = "ana") -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Be the writer of a user's memories that everybody else waits for."""
    async with await psycopg.AsyncConnection.connect(conninfo) as connection:
        await connection.execute("SELECT 1 FROM users WHERE user_id = %s FOR NO KEY UPDATE", [user])
        yield connection
        await connection.commit()


async def waiting(conninfo: str, count: int) -> None:
    """Until so many statements wait for a lock."""
    found = (
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database()"
    )
    await until(lambda: len(rows(conninfo, found)) >= count)


async def settled(services: Services, conninfo: str) -> None:
    """Until everything that was in flight has ended; then the user is nowhere."""
    await learn(services, talk("canary:after", user="bo", conversation="after"))
    unfinished = "SELECT 1 FROM hitherto.jobs WHERE state IN ('queued', 'running', 'failed')"
    await until(lambda: not rows(conninfo, unfinished))
    assert naming(conninfo, "\tana\t", "{ana}", "canary:late") == {}


async def reason_of(going: Awaitable[Any]) -> str:
    """Why a call was refused; empty if it was not."""
    try:
        await going
    except grpc.aio.AioRpcError as error:
        return read_refusal(error).reason
    return ""


class TestRow55:
    async def test_queued_and_inside_the_model_call(
        self, modelled: Services, model: ScriptedModel, superuser_conninfo: str
    ) -> None:
        """The late answer is refused, what waits is never asked, and the jobs are unknown."""
        model.queue(SlowDrip(seconds=0.05, size=16))
        job_ids = await submit(
            modelled, *(talk(f"canary:late{n}", conversation=f"c{n}") for n in range(3))
        )
        async with asyncio.timeout(30):
            await model.called(1)
        receipt = await erase(modelled)
        assert receipt.counts["jobs"] == 3
        for job_id in job_ids:
            looking = modelled.extraction.GetJob(extraction.GetJobRequest(job_id=job_id))
            assert (await refusal_of(looking)).reason == "JOB_NOT_FOUND"
            retrying = modelled.extraction.RetryJob(extraction.RetryJobRequest(job_id=job_id))
            assert (await refusal_of(retrying)).reason == "JOB_NOT_FOUND"
        await settled(modelled, superuser_conninfo)

    async def test_whoever_watches_is_told(self, modelled: Services, model: ScriptedModel) -> None:
        """A job that is gone ends its stream."""
        model.queue(SlowDrip(seconds=0.05, size=16))
        (job_id,) = await submit(modelled, talk("canary:late"))
        async with asyncio.timeout(30):
            await model.called(1)
        watching = asyncio.ensure_future(ended(modelled, job_id, within=20))
        await asyncio.sleep(0)
        await erase(modelled)
        assert (await refusal_of(watching)).reason == "JOB_NOT_FOUND"

    async def test_committing_before_the_erase(
        self, modelled: Services, model: ScriptedModel, superuser_conninfo: str
    ) -> None:
        """The worker stands first in line: what it writes is removed with the rest."""
        await save(modelled, "The user plays the cello.")
        async with holding(superuser_conninfo):
            await submit(modelled, talk("canary:late"))
            await waiting(superuser_conninfo, 1)
            erasing_ = asyncio.ensure_future(erase(modelled))
            await waiting(superuser_conninfo, 2)
        receipt = await erasing_
        assert receipt.counts["memories"] == 2
        await settled(modelled, superuser_conninfo)

    async def test_committing_after_the_erase(
        self, modelled: Services, model: ScriptedModel, superuser_conninfo: str
    ) -> None:
        """The erase stands first in line: the worker finds the fence, or nobody."""
        await save(modelled, "The user plays the cello.")
        model.queue(SlowDrip(seconds=0.02, size=64))
        await submit(modelled, talk("canary:late"))
        async with asyncio.timeout(30):
            await model.called(1)
        async with holding(superuser_conninfo):
            erasing_ = asyncio.ensure_future(erase(modelled))
            await waiting(superuser_conninfo, 2)
        receipt = await erasing_
        assert receipt.counts["memories"] == 1
        await settled(modelled, superuser_conninfo)

    async def test_a_batch_that_is_being_accepted(
        self, services: Services, superuser_conninfo: str
    ) -> None:
        """Neither a new user's first batch nor an old one's next comes in behind the erase."""
        users = [f"{USER}-{n}" for n in range(20)]

        async def try_to(user: str) -> set[str]:
            talks = (talk("I live here.", user=user, conversation=f"c{n}") for n in range(6))
            return {await reason_of(submit(services, each)) for each in talks}

        found = await asyncio.gather(*(try_to(user) for user in users))
        gone = await asyncio.gather(
            *(try_to(user) for user in users), *(reason_of(erase(services, u)) for u in users)
        )
        assert set[str]().union(*found) == {""}
        assert set(gone[len(users) :]) <= {"", "WRITE_CONFLICT"}
        assert set[str]().union(*gone[: len(users)]) <= {"", "USER_ERASED", "WRITE_CONFLICT"}
        for user in users:
            await erase(services, user)
        await learn(services, talk("I live in Porto.", user="bo"))
        assert naming(superuser_conninfo, USER) == {}

    async def test_r4_two_hundred_interleavings(
        self, start_services: StartServices, model: ScriptedModel, superuser_conninfo: str
    ) -> None:
        """Bar R4: erased anywhere between acceptance and the end of the job."""
        users = [f"{USER}-{n:03}" for n in range(200)]
        dice = random.Random(55)
        async with start_services(**model_settings(model), worker_concurrency=8) as services:

            async def one(user: str) -> None:
                await submit(services, talk("canary:r4", user=user))
                await asyncio.sleep(dice.uniform(0, 0.15))
                reasons = [await reason_of(erase(services, user))]
                while reasons[-1]:
                    assert reasons[-1] in ("WRITE_CONFLICT", "OVERLOADED")
                    reasons.append(await reason_of(erase(services, user)))

            for start in range(0, len(users), 10):
                await asyncio.gather(*(one(user) for user in users[start : start + 10]))
            await learn(services, talk("canary:after", user="bo"))
            assert naming(superuser_conninfo, USER) == {}
        assert naming(superuser_conninfo, USER) == {}
