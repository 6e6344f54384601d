"""Many deaths at random moments (faults.md rows 7 and 13, promise R1); `make faults` runs these."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest

from tests.faults.ledger import Ledger
from tests.faults.processes import Name, Processes, Service, eventually
from tests.faults.submitting import Batch, Caller
from tests.scripted_model import ScriptedModel

MakeCaller = Callable[[Callable[[], str]], Caller]

TRANSCRIPTS = 1_000
USERS = 50
CALLERS = 8
KILLS = 20
CHAOS_SECONDS = 120.0

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]


def figures(
    ledger: Ledger, conninfo: str, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> Counter[str]:
    """Check the ledger, tell the figures, and count the acknowledged jobs by state."""
    states = ledger.check(conninfo, chat_calls=model.calls["chat"])
    with psycopg.connect(conninfo) as connection:
        row = connection.execute(
            "SELECT count(*), sum(claim_no), max(attempt), count(*) FILTER (WHERE attempt > 1)"
            " FROM jobs"
        ).fetchone()
    assert row is not None
    with capsys.disabled():
        print(
            f"\n{len(ledger.entries)} acknowledged: {dict(states)}; {row[0]} jobs, {row[1]} claims,"
            f" at most {row[2]} attempts, {row[3]} jobs with more than one;"
            f" {model.calls['chat']} model calls"
        )
    return states


async def test_twenty_kills_of_extraction_during_a_thousand_transcripts(
    private: Processes,
    model: ScriptedModel,
    caller: MakeCaller,
    ledger: Ledger,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model.delay = 0.05
    chance = random.Random(7)
    retrieval = await private.start("retrieval")
    extraction = await private.start("extraction")
    conninfo = private.administrator()
    batches = iter([Batch.new(f"user-{n % USERS}") for n in range(TRANSCRIPTS)])

    async def submit() -> None:
        one = caller(lambda: extraction.address)
        for batch in batches:
            await one.submit(batch)
            # Spread over the kills: an idle queue would be killed for nothing.
            await asyncio.sleep(chance.uniform(0, 0.4))

    callers = [asyncio.create_task(submit()) for _ in range(CALLERS)]
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(0.2, 2.0))
        extraction.kill()
        extraction = await private.start("extraction", port=extraction.port)
    await asyncio.gather(*callers)
    await ledger.settled(conninfo, seconds=300)
    states = figures(ledger, conninfo, model, capsys)
    assert states.total() == TRANSCRIPTS
    assert retrieval.alive


async def test_postgres_and_both_services_killed_at_random_for_two_minutes(
    private: Processes,
    model: ScriptedModel,
    caller: MakeCaller,
    ledger: Ledger,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model.delay = 0.05
    chance = random.Random(11)
    services: dict[Name, Service] = {
        "extraction": private.launch("extraction"),
        "retrieval": private.launch("retrieval"),
    }
    for service in services.values():
        await service.ready()
    stop = asyncio.Event()

    async def submit(number: int) -> None:
        one = caller(lambda: services["extraction"].address)
        while not stop.is_set():
            await one.submit(Batch.new(f"user-{number}-{chance.randrange(8)}"))
            await asyncio.sleep(chance.uniform(0, 0.5))

    def restart(name: Name) -> None:
        services[name].kill()
        services[name] = private.launch(name, port=services[name].port)

    callers = [asyncio.create_task(submit(number)) for number in range(4)]
    deaths: Counter[str] = Counter()
    give_up = time.monotonic() + CHAOS_SECONDS
    while time.monotonic() < give_up:
        await asyncio.sleep(chance.uniform(1.0, 6.0))
        victim = chance.choice(["extraction", "retrieval", "postgres", "postgres"])
        deaths[victim] += 1
        if victim == "extraction":
            restart("extraction")
        elif victim == "retrieval":
            restart("retrieval")
        elif (postmaster := private.postmaster()) is not None:
            with suppress(ProcessLookupError):
                os.kill(postmaster, chance.choice([signal.SIGKILL, signal.SIGQUIT]))
        # A service that gave up because Postgres died in the middle of its start comes again, as
        # under any process manager.
        for name in list(services):
            if not services[name].alive:
                deaths[f"{name} gave up"] += 1
                restart(name)
    stop.set()
    for name in list(services):
        if not services[name].alive:
            restart(name)
        await services[name].ready()
    await asyncio.gather(*callers)
    await eventually(services["extraction"].serving, "the extraction service")
    await eventually(services["retrieval"].serving, "the retrieval service")
    conninfo = private.administrator()
    await ledger.settled(conninfo, seconds=300)
    with capsys.disabled():
        print(f"\ndeaths: {dict(deaths)}")
    states = figures(ledger, conninfo, model, capsys)
    assert states.total() == len(ledger.entries)
    assert [await service.end() for service in services.values()] == [0, 0]
    assert not private.postgres_runs()
