"""Kill -9 of a service at the worst moments (faults.md rows 1, 2, 3, 8; promises 1, 2 and 4)."""

from __future__ import annotations

import asyncio
from typing import LiteralString

import grpc
import psycopg

from hitherto.v1 import retrieval_service_pb2
from tests.faults.conftest import Scene
from tests.faults.processes import stub
from tests.faults.relay import Relay
from tests.faults.submitting import Batch
from tests.scripted_model import Hang
from tests.waiting import eventually

# Stops every transaction between its first write about a memory and the rest.
STALL = """
CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(600); RETURN NEW; END';
CREATE TRIGGER stall BEFORE INSERT ON history FOR EACH ROW EXECUTE FUNCTION stall();
"""
STALLED = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event = 'PgSleep'
"""
WRITTEN = ("memories", "memory_sources", "history", "usage_ledger")
END_STALLED = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event = 'PgSleep'
"""


def ask(conninfo: str, query: LiteralString, *values: object) -> object:
    """The first column of the first row."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        row = connection.execute(query, values).fetchone()
        return row[0] if row else None


async def test_rows_1_to_3_killed_at_its_worst_moments(scene: Scene) -> None:
    """One service after another is killed; what was acknowledged by any takes effect once."""
    scene.model.queue(Hang())
    extraction = await scene.processes.start("extraction")
    address = extraction.address
    one = scene.caller(lambda: address)
    first = await one.submit(Batch.new("ana"))
    async with asyncio.timeout(180):
        await scene.model.called(1)
    # Row 1: during the model call.
    extraction.kill()
    extraction = await scene.processes.start("extraction")
    assert await scene.settled() == {"succeeded": 1}
    assert ask(scene.conninfo, "SELECT attempt FROM jobs WHERE job_id = %s", first.job_id) == 2
    assert scene.model.calls["chat"] == 2

    # Row 3: between the commit and its acknowledgement.
    batch = Batch.new("ben")
    async with Relay(extraction.port) as relay:
        address = relay.address
        await one.submit(Batch.new("warm"))
        relay.hold = True
        answer = asyncio.create_task(one.submit(batch))
        taken = "SELECT job_id::text FROM jobs WHERE user_id = %s"
        await eventually(lambda: ask(scene.conninfo, taken, batch.user), "the commit")
        job_id = ask(scene.conninfo, taken, batch.user)
        extraction.kill()
        extraction = await scene.processes.start("extraction")
        address = extraction.address
        second = await answer
    assert one.repeated >= 1
    assert second.job_id == job_id
    third = await one.submit(Batch.new("cem"))
    # Right after the OK.
    extraction.kill()
    extraction = await scene.processes.start("extraction")
    address = extraction.address
    assert await scene.settled() == {"succeeded": 4}
    assert len({first.job_id, second.job_id, third.job_id}) == 3
    # Upkeep jobs belong to no user: a schedule's slot may have been queued in between.
    of_users = "SELECT count(*) FROM jobs WHERE user_id IS NOT NULL"
    assert ask(scene.conninfo, of_users) == 4
    # The first had no second effect.
    assert ask(scene.conninfo, "SELECT claim_no FROM jobs WHERE job_id = %s", first.job_id) == 2

    # Row 2: between two writes of the last transaction.
    def written() -> list[object]:
        return [
            ask(scene.conninfo, f"SELECT count(*) FROM {table}")
            for table in (*WRITTEN, "conversation_summaries")
        ]

    before = written()
    assert all(before[: len(WRITTEN)])
    with psycopg.connect(scene.conninfo, autocommit=True) as connection:
        connection.execute(STALL)
    await one.submit(Batch.new("dee"))
    await eventually(lambda: ask(scene.conninfo, STALLED), "the worker's last transaction")
    extraction.kill()
    assert written() == before
    with psycopg.connect(scene.conninfo, autocommit=True) as connection:
        connection.execute(END_STALLED)
        connection.execute("DROP TRIGGER stall ON history")
    await scene.processes.start("extraction")
    assert await scene.settled() == {"succeeded": 5}


async def test_row_8_retrieval_killed_under_load(scene: Scene) -> None:
    extraction, retrieval = await scene.processes.start_both()
    port = retrieval.port
    entry = await scene.caller(lambda: extraction.address).submit(Batch.new("ana"))
    await scene.ledger.settled(scene.conninfo)
    answers = 0
    stop = asyncio.Event()

    async def read(channel: grpc.aio.Channel) -> None:
        nonlocal answers
        context = stub(channel, "RetrievalService/GetContext")
        while not stop.is_set():
            try:
                request = retrieval_service_pb2.GetContextRequest(user_id="ana")
                reply = await context(request, timeout=5)
            except grpc.aio.AioRpcError as error:
                code, told = error.code(), error.details()
                assert code == grpc.StatusCode.UNAVAILABLE, told
                await asyncio.sleep(0.05)
                continue
            assert entry.canary in reply.prompt_block
            answers += 1

    async with retrieval.channel() as channel:
        readers = [asyncio.create_task(read(channel)) for _ in range(4)]
        await eventually(lambda: answers >= 20, "answers before the kill")
        retrieval.kill()
        await scene.processes.start("retrieval", port=port)
        reached = answers + 20
        await eventually(lambda: answers >= reached, "answers after the kill")
        stop.set()
        await asyncio.gather(*readers)
    assert scene.ledger.check(scene.conninfo, chat_calls=1) == {"succeeded": 1}
