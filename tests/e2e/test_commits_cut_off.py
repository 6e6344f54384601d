"""A commit that is cut off costs no second call of a model (faults.md row 76).

Two processes, a lease of a second, a table locked for longer, and the connection cut: what the
model answered is written by whoever asked for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
import pytest

from hitherto.v1 import job_pb2
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.handing_over import document, hand_over
from tests.e2e.learning import ended, learn, memories, rows, submit, talk
from tests.e2e.merging import ONE_STYLE, STYLE, STYLES, all_into, contents, script
from tests.e2e.methods import ask
from tests.scripted_model import ScriptedModel

LEASE = 4.0
JOBS = 3
_WAITING = (
    "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    " AND datname = current_database()"
    " AND (query LIKE '%INSERT INTO history%' OR query LIKE '%INSERT INTO document_chunks%')"
)


@pytest.fixture
async def pair(start_services: StartServices, model: ScriptedModel) -> AsyncIterator[Services]:
    settings = model_settings(model) | {"lease_seconds": LEASE}
    async with start_services(**settings) as services, start_services(**settings):
        yield services


async def cut_off(superuser_conninfo: str, begin: Callable[[], Awaitable[Any]]) -> None:
    """Begin jobs, hold their commits at a table beyond their lease, and cut their connections."""
    held: list[Any] = []
    with psycopg.connect(superuser_conninfo) as connection:
        for table in ("history", "document_chunks"):
            connection.execute(f"LOCK TABLE hitherto.{table} IN EXCLUSIVE MODE".encode())
        await begin()
        async with asyncio.timeout(180):
            while len(held) < JOBS:
                await asyncio.sleep(0.02)
                held = rows(superuser_conninfo, _WAITING)
        await asyncio.sleep(2 * LEASE)
        for (pid,) in held:
            rows(superuser_conninfo, f"SELECT pg_terminate_backend({pid})")
        connection.rollback()


async def test_row_76_what_is_cut_off_is_asked_for_once(
    pair: Services, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """An extraction, a merge and a document, of three people."""
    model.script = script(all_into(ONE_STYLE))
    await learn(pair, talk(*(f"{said} #{STYLE}" for said in STYLES)))
    await learn(pair, talk("I keep a heron", user="bo"))
    before = dict(model.calls)
    begun: list[str] = []

    async def begin() -> None:
        begun.extend(await submit(pair, talk("I keep a crane", user="bo", conversation="c2")))
        begun.append((await ask(pair, "Consolidate", tag=STYLE)).job.id)
        paper = document(content="The budget is 40,000 euros.")
        begun.append((await hand_over(pair, paper, user="eve")).job.id)

    await cut_off(superuser_conninfo, begin)
    jobs = [await ended(pair, job_id) for job_id in begun]
    for job in jobs:
        assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), job.error
    # A call of each for the words, and of the first two for an answer.
    calls = {"chat": before["chat"] + 2, "embeddings": before["embeddings"] + 3}
    assert dict(model.calls) == calls
    assert len(await memories(pair, user="bo")) == 2
    assert await contents(pair) == [ONE_STYLE]
    _, merge, handed = jobs
    assert merge.result.counts["created"] == 1
    assert handed.result.counts["documents"] == 1
