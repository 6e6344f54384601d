"""Postgres dies under load and the services live on (faults.md rows 13 and 14, requirement A3)."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

import psycopg

from tests.faults.bystander import crowded
from tests.faults.ledger import Ledger
from tests.faults.processes import Processes
from tests.faults.submitting import Batch, Caller
from tests.integration.embedded.processes import runs
from tests.scripted_model import ScriptedModel
from tests.waiting import eventually

BACK_WITHIN_SECONDS = 30.0

# SIGQUIT is what `pg_ctl stop -m immediate` sends.
DEATHS = {"kill -9": signal.SIGKILL, "pg_ctl stop -m immediate": signal.SIGQUIT}


async def test_rows_13_and_14_nothing_acknowledged_is_lost(
    private: Processes,
    model: ScriptedModel,
    caller: Callable[[Callable[[], str]], Caller],
    ledger: Ledger,
) -> None:
    extraction, retrieval = await private.start_both()
    conninfo = private.administrator()
    stop = asyncio.Event()

    async def submit(number: int) -> None:
        one = caller(lambda: extraction.address)
        while not stop.is_set():
            await one.submit(Batch.new(f"user-{number}"))
            # The first always has one under way.
            if number:
                await asyncio.sleep(0.1)

    callers = [asyncio.create_task(submit(number)) for number in range(4)]
    await eventually(lambda: len(ledger.entries) >= 20, "a stream of submissions")
    for death, number in DEATHS.items():
        first = private.postmaster()
        assert first is not None
        began = time.monotonic()
        os.kill(first, number)
        await eventually(lambda first=first: not runs(first), f"{death} to end Postgres")  # type: ignore[misc]
        acknowledged = len(ledger.entries) + 20
        await eventually(
            lambda least=acknowledged: len(ledger.entries) >= least,  # type: ignore[misc]
            f"acknowledgements after {death}",
        )
        # Generous: the bound is what is promised, and it includes the stream above.
        assert time.monotonic() - began < BACK_WITHIN_SECONDS * crowded(), death
        assert private.postmaster() not in {None, first}, death
    stop.set()
    await asyncio.gather(*callers)
    assert extraction.alive
    assert retrieval.alive
    await eventually(extraction.serving, "extraction to serve again")
    await eventually(retrieval.serving, "retrieval to serve again")
    await ledger.settled(conninfo)
    states = ledger.check(conninfo, chat_calls=model.calls["chat"])
    assert states == {"succeeded": len(ledger.entries)}
    with psycopg.connect(conninfo) as connection:
        unacknowledged = connection.execute(
            "SELECT count(*) FROM jobs WHERE user_id IS NOT NULL AND NOT job_id::text = ANY(%s)",
            [[entry.job_id for entry in ledger.entries]],
        ).fetchone()
    assert unacknowledged == (0,)
    entry = ledger.entries[0]
    reply = await retrieval.ask(
        "RetrievalService/SearchMemories", user_id=entry.user, query=entry.canary
    )
    assert any(entry.canary in result.memory.content for result in reply.results)
    # The jobs' signals are heard again: the listener has a session on the new server.
    with psycopg.connect(conninfo) as connection:
        await eventually(
            lambda: (
                connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'"
                ).fetchone()
                != (0,)
            ),
            "the listener's return",
        )
    assert [await service.end() for service in (extraction, retrieval)] == [0, 0]
    assert not private.postgres_runs()
