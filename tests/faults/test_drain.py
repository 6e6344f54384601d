"""SIGTERM or SIGHUP: what is begun is finished or handed back, no more is taken (rows 9 and 10)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import psycopg
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hitherto.v1 import extraction_service_pb2, extraction_service_pb2_grpc
from hitherto_shared.database import migrate
from tests.faults.conftest import Scene
from tests.faults.processes import Processes, Service
from tests.faults.submitting import Batch
from tests.scripted_model import ChatRequest, Hang
from tests.scripted_model.scripts import Outcome
from tests.waiting import eventually

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def jobs(conninfo: str) -> dict[str, tuple[str, int]]:
    """State and attempt of every job of a user."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT job_id::text, state, attempt FROM jobs WHERE user_id IS NOT NULL"
        ).fetchall()
    return {job_id: (state, attempt) for job_id, state, attempt in rows}


@contextmanager
def started_with_sighup(handler: signal.Handlers) -> Iterator[None]:
    """What a process is started with does not depend on how the tests were."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_row_9_running_jobs_are_finished_and_waiting_ones_left(scene: Scene) -> None:
    answer, stopping = scene.model.script, asyncio.Event()

    async def once_it_stops(request: ChatRequest) -> Outcome:
        await stopping.wait()
        outcome = answer(request)
        assert not isinstance(outcome, Awaitable)
        return outcome

    scene.model.script = once_it_stops
    with started_with_sighup(signal.SIG_IGN):  # as `nohup` starts it
        extraction = await scene.processes.start("extraction", HITHERTO_WORKER_CONCURRENCY="8")
    one = scene.caller(lambda: extraction.address)
    entries = [await one.submit(Batch.new(f"user-{n % 8}")) for n in range(16)]
    async with (
        asyncio.timeout(180),
        extraction.channel() as channel,
    ):
        await scene.model.called(8)
        health: Any = health_pb2_grpc.HealthStub(channel)  # its methods have no types
        watch = health.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        # Were this taken for an end, the next signal would be the second, and end it at once.
        extraction.send(signal.SIGHUP)
        assert await extraction.serving()
        extraction.send(signal.SIGTERM)
        assert (await watch.read()).status == NOT_SERVING
        watch.cancel()
    stopping.set()
    assert await extraction.ended() == 0
    found = jobs(scene.conninfo)
    assert {state for state, _ in found.values()} == {"queued", "succeeded"}
    assert all(attempt == (state == "succeeded") for state, attempt in found.values())
    assert sum(state == "succeeded" for state, _ in found.values()) >= 8
    extraction = await scene.processes.start("extraction", HITHERTO_DRAIN_SECONDS="600")
    await scene.settled()
    found = jobs(scene.conninfo)
    assert [found[entry.job_id] for entry in entries] == [("succeeded", 1)] * 16
    assert scene.model.calls["chat"] == 16
    # A second SIGTERM ends at once.
    scene.model.queue(Hang())
    await one.submit(Batch.new("user-0"))
    async with asyncio.timeout(180):
        await scene.model.called(17)
    extraction.send(signal.SIGTERM)
    await eventually(lambda: "draining" in extraction.said, "the drain")
    assert await extraction.end() == 1
    assert "ending now" in extraction.said


async def test_rows_9_and_10_a_job_that_hangs_is_handed_back_and_a_call_in_flight_answered(
    scene: Scene,
) -> None:
    """Streams without an end, of health and of the job, delay the end by the drain at most."""
    scene.model.always(Hang())
    with started_with_sighup(signal.SIG_DFL):
        extraction = await scene.processes.start("extraction", HITHERTO_DRAIN_SECONDS="1")
    one = scene.caller(lambda: extraction.address)
    entries = [await one.submit(Batch.new(f"user-{n}")) for n in range(3)]
    async with (
        asyncio.timeout(180),
        extraction.channel() as channel,
    ):
        await scene.model.called(3)
        health: Any = health_pb2_grpc.HealthStub(channel)  # its methods have no types
        watch = health.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        stub = extraction_service_pb2_grpc.ExtractionServiceStub(channel)
        watched = extraction_service_pb2.WatchJobRequest(job_id=entries[0].job_id)
        jobs_watch = stub.WatchJob(watched)
        assert (await anext(aiter(jobs_watch))).job.id == watched.job_id
        # A terminal that is closed sends it, and the shell there once more.
        extraction.send(signal.SIGHUP)
        await eventually(lambda: "draining" in extraction.said, "the drain")
        extraction.send(signal.SIGHUP)
        assert await extraction.ended() == 0
    found = jobs(scene.conninfo)
    assert [found[entry.job_id] for entry in entries] == [("queued", 0)] * 3
    scene.model.always(None)
    extraction = await scene.processes.start("extraction")
    await scene.settled()
    found = jobs(scene.conninfo)
    assert [found[entry.job_id] for entry in entries] == [("succeeded", 1)] * 3

    entry = entries[0]
    batch = Batch.new(entry.user)
    async with (
        extraction.channel() as channel,
        extraction.channel() as other,
        await psycopg.AsyncConnection.connect(scene.conninfo) as blocker,
    ):
        stub = extraction_service_pb2_grpc.ExtractionServiceStub(channel)
        health = health_pb2_grpc.HealthStub(other)
        watch = health.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        await blocker.execute("SELECT FROM users WHERE user_id = %s FOR UPDATE", [entry.user])
        in_flight = asyncio.ensure_future(stub.SubmitTranscripts(batch.request(), timeout=120))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        )

        async def blocked() -> bool:
            async with await psycopg.AsyncConnection.connect(scene.conninfo) as looker:
                row = await (await looker.execute(waiting)).fetchone()
                return bool(row and row[0])

        await eventually(blocked, "the call to be in flight")
        extraction.send(signal.SIGTERM)
        assert (await watch.read()).status == NOT_SERVING
        watch.cancel()
        await eventually(lambda: _refused(extraction, entry.job_id), "a refusal")
        assert not in_flight.done()
        await blocker.rollback()
        reply = await in_flight
    assert reply.jobs[0].id in jobs(scene.conninfo)
    assert await extraction.ended() == 0


async def _refused(service: Service, job_id: str) -> bool:
    """True when a new call is refused; it must then say UNAVAILABLE."""
    try:
        await service.ask("ExtractionService/GetJob", job_id=job_id)
    except grpc.aio.AioRpcError as error:
        code, told = error.code(), error.details()
        assert code == grpc.StatusCode.UNAVAILABLE, told
        return True
    return False


async def test_sigterm_while_it_waits_for_migrations(
    shared: Processes, superuser_conninfo: str
) -> None:
    # Another process migrates, and goes on doing so.
    with psycopg.connect(superuser_conninfo, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [migrate._LOCK])
        extraction = shared.launch("extraction", HITHERTO_MIGRATE="1")
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = %s"
        )

        def waits() -> bool:
            row = other.execute(waiting, [migrate.COMMAND]).fetchone()
            return bool(row and row[0])

        await eventually(waits, "the service to wait for its turn to migrate")
        extraction.send(signal.SIGTERM)
        assert await extraction.ended() == 0
    assert "serving on port" not in extraction.said
