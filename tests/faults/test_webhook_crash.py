"""Kill -9 between a change and its delivery: what was committed is delivered in the end (G9)."""

from __future__ import annotations

import grpc
import psycopg

from hitherto.v1 import (
    maintenance_service_pb2,
    maintenance_service_pb2_grpc,
    memory_service_pb2,
    memory_service_pb2_grpc,
)
from tests.e2e.receiver import Receiver, accept, hang
from tests.faults.processes import CHANNEL_OPTIONS, Processes, Service
from tests.faults.test_crashes import END_STALLED, ask
from tests.waiting import eventually

# Stops the transaction that gives changes their places and makes their deliveries.
STALL = """
CREATE FUNCTION stall_places() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(600); RETURN NEW; END';
CREATE TRIGGER stall_places BEFORE UPDATE ON change_positions
    FOR EACH ROW EXECUTE FUNCTION stall_places();
"""
NOW = "UPDATE webhook_deliveries SET next_attempt_at = now() WHERE state = 'pending'"


async def start(shared: Processes) -> Service:
    """The extraction service, permitted to send to this machine."""
    return await shared.start(
        "extraction", HITHERTO_WEBHOOK_PRIVATE="true", HITHERTO_WEBHOOK_TIMEOUT_SECONDS="1"
    )


async def save(address: str, content: str) -> str:
    """A memory of Ana's."""
    async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        stub = memory_service_pb2_grpc.MemoryServiceStub(channel)
        request = memory_service_pb2.SaveMemoryRequest(user_id="ana", content=content)
        return str((await stub.SaveMemory(request)).memory.id)


async def test_g9_killed_before_the_place_and_before_the_delivery(
    shared: Processes, superuser_conninfo: str
) -> None:
    async with Receiver() as receiver:
        extraction = await start(shared)
        async with grpc.aio.insecure_channel(
            extraction.address, options=CHANNEL_OPTIONS
        ) as channel:
            stub = maintenance_service_pb2_grpc.MaintenanceServiceStub(channel)
            await stub.CreateWebhook(maintenance_service_pb2.CreateWebhookRequest(url=receiver.url))
        with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
            connection.execute(STALL)
        first = await save(extraction.address, "Ana lives in Leith.")
        stalled = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event = 'PgSleep'"
        )
        await eventually(lambda: ask(superuser_conninfo, stalled), "changes to be placed")
        extraction.kill()
        assert ask(superuser_conninfo, "SELECT count(*) FROM webhook_deliveries") == 0
        with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
            connection.execute(END_STALLED)
            connection.execute("DROP TRIGGER stall_places ON change_positions")
        # Killed again while the receiver has the request and has not answered.
        receiver.behave = hang
        extraction = await start(shared)
        await eventually(lambda: receiver.received, "the first request")
        second = await save(extraction.address, "Ana plays the cello.")
        extraction.kill()
        receiver.behave = accept
        with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
            # The leases of the dead process have ended.
            connection.execute(NOW)
        await start(shared)
        arrived = "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered'"
        await eventually(lambda: ask(superuser_conninfo, arrived) == 2, "both to arrive")
        told = {each.data["change"]["memoryId"] for each in receiver.received}
        assert told == {first, second}
