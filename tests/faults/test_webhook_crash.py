"""Kill -9 between a change and its delivery: what was committed is delivered in the end (G9)."""

from __future__ import annotations

import psycopg

from tests.e2e.receiver import Receiver, accept, hang
from tests.faults.processes import Processes, Service
from tests.faults.test_crashes import END_STALLED, STALLED, ask
from tests.waiting import eventually

# Stops the transaction that gives changes their places and makes their deliveries.
STALL = """
CREATE FUNCTION stall_places() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_sleep(600); RETURN NEW; END';
CREATE TRIGGER stall_places BEFORE UPDATE ON change_positions
    FOR EACH ROW EXECUTE FUNCTION stall_places();
"""
NOW = "UPDATE webhook_deliveries SET next_attempt_at = now() WHERE state = 'pending'"


async def save(service: Service, content: str) -> str:
    saved = await service.ask("MemoryService/SaveMemory", user_id="ana", content=content)
    return str(saved.memory.id)


async def test_g9_killed_before_the_place_and_before_the_delivery(
    shared: Processes, superuser_conninfo: str
) -> None:
    # To this machine; a request that hangs outlasts the service.
    shared.settings |= {
        "HITHERTO_WEBHOOK_PRIVATE": "true",
        "HITHERTO_WEBHOOK_TIMEOUT_SECONDS": "60",
    }
    async with Receiver() as receiver:
        extraction = await shared.start("extraction")
        await extraction.ask("MaintenanceService/CreateWebhook", url=receiver.url)
        receiver.behave = hang
        first = await save(extraction, "Ana lives in Leith.")
        await eventually(lambda: receiver.received, "the first request")
        with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
            connection.execute(STALL)
        second = await save(extraction, "Ana plays the cello.")
        await eventually(lambda: ask(superuser_conninfo, STALLED), "changes to be placed")
        # The receiver has the first one and has not answered; the second has no delivery yet.
        extraction.kill()
        assert ask(superuser_conninfo, "SELECT array_agg(state) FROM webhook_deliveries") == [
            "pending"
        ]
        receiver.behave = accept
        with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
            connection.execute(END_STALLED)
            connection.execute("DROP TRIGGER stall_places ON change_positions")
            # The leases of the dead process have ended.
            connection.execute(NOW)
        await shared.start("extraction")
        arrived = "SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered'"
        await eventually(lambda: ask(superuser_conninfo, arrived) == 2, "both to arrive")
        told = {each.data["change"]["memoryId"] for each in receiver.received}
        assert told == {first, second}
