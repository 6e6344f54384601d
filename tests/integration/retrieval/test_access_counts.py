"""Access counters (D11): what one flush wrote is not written by the next."""

from __future__ import annotations

import asyncio
from uuid import UUID

import psycopg

from hitherto_retrieval.usage_counts import AccessCounter
from hitherto_shared.database.pool import Database
from hitherto_shared.models import Scope
from tests.e2e.learning import rows
from tests.integration.retrieval.seed import TENANT, Fact, remember

ANA = Scope(TENANT, "ana")


def counters(conninfo: str) -> dict[UUID, int]:
    return dict(rows(conninfo, "SELECT memory_id, access_count FROM memory_access"))


async def test_d11_every_flush_adds_what_was_told_since_the_last(
    reader: Database, superuser_conninfo: str
) -> None:
    tea, jam = await remember(superuser_conninfo, "ana", [Fact("tea"), Fact("jam")])
    counter = AccessCounter(reader)
    counted = counter._counts
    counter.returned(ANA, [tea])
    await counted.flush()
    assert counters(superuser_conninfo) == {tea: 1}
    counter.returned(ANA, [tea, jam])
    counter.returned(ANA, [tea])
    await counted.flush()
    await counted.flush()
    assert counters(superuser_conninfo) == {tea: 3, jam: 1}


async def test_d11_the_same_holds_for_a_service_that_ends(
    reader: Database, superuser_conninfo: str
) -> None:
    (tea,) = await remember(superuser_conninfo, "ana", [Fact("tea")])
    counter = AccessCounter(reader)
    await counter.start()
    counter.returned(ANA, [tea])
    async with asyncio.timeout(180):
        while counters(superuser_conninfo) != {tea: 1}:  # noqa: ASYNC110 - another's work
            await asyncio.sleep(0.05)
    counter.returned(ANA, [tea])
    await counter.stop()
    assert counters(superuser_conninfo) == {tea: 2}


async def test_d11_a_memory_that_is_removed_meanwhile_costs_no_other_its_count(
    reader: Database, superuser_conninfo: str
) -> None:
    """As when a user is erased just as the counts of others of the tenant are written."""
    tea, jam = await remember(superuser_conninfo, "ana", [Fact("tea"), Fact("jam")])
    counter = AccessCounter(reader)
    counter.returned(ANA, [tea, jam])
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as removing:
        await removing.execute("DELETE FROM memories WHERE memory_id = %s", [tea])
        writing = asyncio.create_task(counter._counts.flush())
        blocked = (
            "SELECT 1 FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        async with asyncio.timeout(180):
            while not rows(superuser_conninfo, blocked):  # noqa: ASYNC110 - another's work
                await asyncio.sleep(0.02)
        await removing.commit()
    await writing
    await counter._counts.flush()
    assert counters(superuser_conninfo) == {jam: 1}
