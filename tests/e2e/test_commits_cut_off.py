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
from tests.e2e.learning import ended, learn, rows, submit, talk
from tests.e2e.merging import ONE_STYLE, STYLE, STYLES, all_into, contents, script
from tests.e2e.methods import ask
from tests.scripted_model import ScriptedModel

LEASE = 4.0
_WAITING = (
    "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    " AND datname = current_database() AND query LIKE '%INSERT INTO {}%'"
)


@pytest.fixture
async def pair(start_services: StartServices, model: ScriptedModel) -> AsyncIterator[Services]:
    settings = model_settings(model) | {"lease_seconds": LEASE}
    async with start_services(**settings) as services, start_services(**settings):
        yield services


async def cut_off(
    superuser_conninfo: str, services: Services, table: str, begin: Callable[[], Awaitable[str]]
) -> job_pb2.Job:
    """Begin a job, hold its commit at a table beyond its lease, and cut its connection."""
    with psycopg.connect(superuser_conninfo) as connection:
        connection.execute(f"LOCK TABLE hitherto.{table} IN EXCLUSIVE MODE".encode())
        job_id = await begin()
        found: list[Any] = []
        async with asyncio.timeout(180):
            while not found:
                await asyncio.sleep(0.02)
                found = rows(superuser_conninfo, _WAITING.format(table))
        await asyncio.sleep(2 * LEASE)
        rows(superuser_conninfo, f"SELECT pg_terminate_backend({found[0][0]})")
        connection.rollback()
    return await ended(services, job_id)


async def test_row_76_an_extraction_that_is_cut_off_is_asked_for_once(
    pair: Services, model: ScriptedModel, superuser_conninfo: str
) -> None:
    await learn(pair, talk("remember canary:first"))

    async def begin() -> str:
        return (await submit(pair, talk("remember canary:heron", conversation="c2")))[0]

    job = await cut_off(superuser_conninfo, pair, "history", begin)
    assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), job.error
    assert model.calls["chat"] == 2
    assert rows(superuser_conninfo, "SELECT count(*) FROM memories") == [(2,)]


async def test_row_76_a_merge_that_is_cut_off_is_asked_for_once(
    pair: Services, model: ScriptedModel, superuser_conninfo: str
) -> None:
    model.script = script(all_into(ONE_STYLE))
    await learn(pair, talk(*(f"{said} #{STYLE}" for said in STYLES)))
    before = model.calls["chat"]

    async def begin() -> str:
        reply = await ask(pair, "Consolidate", tag=STYLE)
        return str(reply.job.id)

    job = await cut_off(superuser_conninfo, pair, "history", begin)
    assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), job.error
    assert model.calls["chat"] == before + 1
    assert await contents(pair) == [ONE_STYLE]
    assert job.result.counts["created"] == 1


async def test_row_76_a_document_that_is_cut_off_is_embedded_once(
    pair: Services, model: ScriptedModel, superuser_conninfo: str
) -> None:
    before = model.calls["embeddings"]

    async def begin() -> str:
        return (await hand_over(pair, document(content="The budget is 40,000 euros."))).job.id

    job = await cut_off(superuser_conninfo, pair, "document_chunks", begin)
    assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), job.error
    assert model.calls["embeddings"] == before + 1
    assert job.result.counts["documents"] == 1
