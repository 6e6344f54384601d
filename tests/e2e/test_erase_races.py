"""EraseUser against whatever is in flight (bar R4, faults.md row 55): the user stays gone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc
import psycopg
import pytest

from tests.e2e.canaries import naming
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save
from tests.e2e.handing_over import document, hand_over
from tests.e2e.learning import ended, learn, rows, submit, talk
from tests.e2e.leaving import erase
from tests.e2e.methods import ask, read_refusal
from tests.e2e.privacy import choose
from tests.e2e.sealing import change_profile
from tests.e2e.sessions import refusal_of
from tests.e2e.sessions import update as update_session
from tests.scripted_model import ScriptedModel, SlowDrip
from tests.waiting import eventually

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
    await eventually(lambda: len(rows(conninfo, found)) >= count)


async def settled(services: Services, conninfo: str) -> None:
    """Until everything that was in flight has ended; then the user is nowhere."""
    await learn(services, talk("canary:after", user="bo", conversation="after"))
    unfinished = "SELECT 1 FROM hitherto.jobs WHERE state IN ('queued', 'running', 'failed')"
    await eventually(lambda: not rows(conninfo, unfinished))
    assert naming(conninfo, "\tana\t", "{ana}", "canary:late") == {}


async def reason_of(going: Awaitable[Any]) -> str:
    """Why a call was refused; empty if it was not."""
    try:
        await going
    except grpc.aio.AioRpcError as error:
        return read_refusal(error).reason
    return ""


async def answer_of(call: Callable[[], Awaitable[Any]]) -> str:
    """Why a call was refused, once the service has the time for it; empty if it was not."""
    while True:
        if (reason := await reason_of(call())) != "OVERLOADED":
            return reason
        await asyncio.sleep(0.1)


class TestRow55:
    async def test_queued_and_inside_the_model_call(
        self, modelled: Services, superuser_conninfo: str
    ) -> None:
        """The late answer is refused, what waits is never asked, the jobs are unknown, and whoever
        watches one is told."""
        modelled.model.queue(SlowDrip(seconds=0.05, size=16))
        talks = (talk(f"canary:late{n}", conversation=f"c{n}") for n in range(3))
        job_ids = await submit(modelled, *talks)
        async with asyncio.timeout(180):
            await modelled.model.called(1)
        watching = asyncio.ensure_future(ended(modelled, job_ids[0], within=180))
        await asyncio.sleep(0)
        assert (await erase(modelled)).counts["jobs"] == 3
        assert (await refusal_of(watching)).reason == "JOB_NOT_FOUND"
        for job_id in job_ids:
            for method in ("GetJob", "RetryJob"):
                refusal = await refusal_of(ask(modelled, method, job_id=job_id))
                assert refusal.reason == "JOB_NOT_FOUND"
        await settled(modelled, superuser_conninfo)

    @pytest.mark.parametrize("first", ["worker", "erase"])
    async def test_committing_beside_the_erase(
        self, modelled: Services, superuser_conninfo: str, first: str
    ) -> None:
        """Where the worker stands first in line, what it writes is removed with the rest; else it
        finds the fence, or nobody."""
        await save(modelled, "The user plays the cello.")
        modelled.model.queue(SlowDrip(seconds=0.02, size=64))
        await submit(modelled, talk("canary:late"))
        async with asyncio.timeout(180):
            await modelled.model.called(1)
        async with holding(superuser_conninfo):
            if first == "worker":
                await waiting(superuser_conninfo, 1)
            erasing_ = asyncio.ensure_future(erase(modelled))
            await waiting(superuser_conninfo, 2)
        receipt = await erasing_
        assert receipt.counts["memories"] == (2 if first == "worker" else 1)
        await settled(modelled, superuser_conninfo)

    async def test_a_batch_that_is_being_accepted(
        self, services: Services, superuser_conninfo: str
    ) -> None:
        """Neither a new user's first batch nor an old one's next comes in behind the erase."""
        users = [f"{USER}-{n}" for n in range(8)]

        async def try_to(user: str) -> set[str]:
            talks = (talk("I live here.", user=user, conversation=f"c{n}") for n in range(6))
            return {await answer_of(partial(submit, services, each)) for each in talks}

        found = await asyncio.gather(*(try_to(user) for user in users))
        gone = await asyncio.gather(
            *(try_to(user) for user in users),
            *(answer_of(partial(erase, services, user)) for user in users),
        )
        assert set[str]().union(*found) == {""}
        assert set(gone[len(users) :]) <= {"", "WRITE_CONFLICT"}
        assert set[str]().union(*gone[: len(users)]) <= {"", "USER_ERASED", "WRITE_CONFLICT"}
        for user in users:
            await erase(services, user)
        await learn(services, talk("I live in Porto.", user="bo"))
        assert naming(superuser_conninfo, USER) == {}

    @pytest.mark.faults
    async def test_r4_two_hundred_interleavings(
        self, start_services: StartServices, model: ScriptedModel
    ) -> None:
        """Bar R4: erased anywhere between acceptance and the end of the job.

        The jobs of a user run one after the other, so that an erasure at any moment meets one that
        runs, those that wait for it, and what the others left.
        """
        users = [f"{USER}-{n:03}" for n in range(50)]
        dice = random.Random(55)
        async with start_services(model, worker_concurrency=8) as services:

            async def one(user: str) -> None:
                talks = (talk("canary:r4", user=user, conversation=f"c{n}") for n in range(4))
                assert len(await submit(services, *talks)) == 4
                await asyncio.sleep(dice.uniform(0, 0.15))
                while reason := await reason_of(erase(services, user)):
                    assert reason in ("WRITE_CONFLICT", "OVERLOADED")
                    await asyncio.sleep(0.02)

            for start in range(0, len(users), 10):
                await asyncio.gather(*(one(user) for user in users[start : start + 10]))
            await learn(services, talk("canary:after", user="bo"))
            assert naming(services.conninfo, USER) == {}
        assert naming(services.conninfo, USER) == {}


_BARRIER = """
CREATE OR REPLACE FUNCTION hitherto.wait_at_the_barrier() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_user <> 'hitherto_removal' THEN
        PERFORM pg_advisory_xact_lock_shared(55);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER barrier BEFORE INSERT ON hitherto.{table}
FOR EACH ROW EXECUTE FUNCTION hitherto.wait_at_the_barrier();
"""


async def put_up_barrier(conninfo: str, table: str) -> None:
    """Whoever would add a row to the table, but for an erase, waits for lock 55."""
    async with await psycopg.AsyncConnection.connect(conninfo) as connection:
        await connection.execute(_BARRIER.format(table=table).encode())


@asynccontextmanager
async def locked(conninfo: str, number: str) -> AsyncIterator[None]:
    """Hold an advisory lock alone."""
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        await connection.execute(f"SELECT pg_advisory_lock({number})".encode())
        yield


class TestWindows:
    """Between a look for an erased user and what is written after it. No chance, and no sleep."""

    async def test_between_a_look_and_a_write(
        self, services: Services, superuser_conninfo: str
    ) -> None:
        await self.a_job_about_somebody_unknown_comes_after_the_erase(services, superuser_conninfo)
        await put_up_barrier(superuser_conninfo, "jobs")
        await self.a_job_about_somebody_unknown_is_there_before_it(services, superuser_conninfo)
        await put_up_barrier(superuser_conninfo, "users")
        await self.a_whole_erase_between_the_look_and_the_users_row(services, superuser_conninfo)

    async def a_whole_erase_between_the_look_and_the_users_row(
        self, services: Services, superuser_conninfo: str
    ) -> None:
        """Each of these makes a user's row, and is held where it has found that it may."""
        making: dict[str, Callable[[str], Awaitable[Any]]] = {
            "submits": lambda user: submit(services, talk("I live here.", user=user)),
            "appends": lambda user: ask(
                services,
                "AppendMessages",
                user_id=user,
                conversation_id="c1",
                messages=talk("I live here.").messages,
            ),
            "saves": lambda user: save(services, "The user lives here.", user=user),
            "hands-in": lambda user: hand_over(services, document("d1", "It is here."), user=user),
            "describes": lambda user: change_profile(services, user=user, summary="Lives here."),
            "chooses": lambda user: choose(services, user=user, encrypt_sensitive=False),
            "begins": lambda user: update_session(services, {"here": 1}, user=user),
        }
        for name, make in making.items():
            reasons: list[str] = []
            # On a machine that is too busy the call gives up before the erase is done.
            while not reasons or reasons[-1] in ("WRITE_CONFLICT", "DEADLINE_EXCEEDED"):
                user = f"{USER}-{name}-{len(reasons)}"
                async with locked(superuser_conninfo, "55"):
                    going = asyncio.ensure_future(reason_of(make(user)))
                    await waiting(superuser_conninfo, 1)
                    await erase(services, user)
                reasons.append(await going)
            assert reasons[-1] == "USER_ERASED", name
        assert naming(superuser_conninfo, USER) == {}

    async def a_job_about_somebody_unknown_is_there_before_it(
        self, services: Services, superuser_conninfo: str
    ) -> None:
        """The erase waits for whoever has found that a job may be made, and removes the job."""
        for kind in JOBS:
            user = f"{USER}-{kind}"
            async with locked(superuser_conninfo, "55"):
                asking = asyncio.ensure_future(ask(services, kind, user_id=user))
                await waiting(superuser_conninfo, 1)
                erasing_ = asyncio.ensure_future(erase(services, user))
                await waiting(superuser_conninfo, 2)
            await asking
            await erasing_
            assert naming(superuser_conninfo, user) == {}, kind

    async def a_job_about_somebody_unknown_comes_after_the_erase(
        self, services: Services, superuser_conninfo: str
    ) -> None:
        """The erase stands first in line, and whoever stands behind it looks again."""
        for kind in JOBS:
            user = f"{USER}-late-{kind}"
            key = f"hashtextextended('default' || chr(31) || '{user}', 0)"
            async with locked(superuser_conninfo, key):
                erasing_ = asyncio.ensure_future(erase(services, user))
                await waiting(superuser_conninfo, 1)
                asking = asyncio.ensure_future(reason_of(ask(services, kind, user_id=user)))
                await waiting(superuser_conninfo, 2)
            assert await asking == "USER_ERASED", kind
            await erasing_
            assert naming(superuser_conninfo, user) == {}, kind


JOBS = ("Consolidate", "RunDecay", "RunRetention")
