"""Twenty deaths of the extraction service (faults.md row 7, promise R1); part of `make faults`."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from tests.faults.ledger import Ledger
from tests.faults.processes import Processes
from tests.faults.submitting import Batch, Caller
from tests.scripted_model import ScriptedModel

MakeCaller = Callable[[Callable[[], str]], Caller]

TRANSCRIPTS = 1_000
USERS = 50
CALLERS = 8
KILLS = 20

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
