"""Access counters (D11): what one flush wrote is not written by the next."""

from __future__ import annotations

import asyncio
from uuid import UUID

import psycopg

from hitherto_retrieval.usage_counts import AccessCounter
from tests.e2e.learning import rows
from tests.integration.retrieval.questions import ANA, Reader
from tests.integration.retrieval.seed import Fact, remember
from tests.waiting import eventually


def counters(conninfo: str) -> dict[UUID, int]:
    return dict(rows(conninfo, "SELECT memory_id, access_count FROM memory_access"))


async def test_d11_every_flush_adds_what_was_told_since_the_last(reader: Reader) -> None:
    tea, jam = await remember(reader.superuser, "ana", [Fact("tea"), Fact("jam")])
    counter = AccessCounter(reader)
    counted = counter._counts
    counter.returned(ANA, [tea])
    await counted.flush()
    assert counters(reader.superuser) == {tea: 1}
    counter.returned(ANA, [tea, jam])
    counter.returned(ANA, [tea])
    await counted.flush()
    await counted.flush()
    assert counters(reader.superuser) == {tea: 3, jam: 1}


async def test_d11_the_same_holds_for_a_service_that_ends(reader: Reader) -> None:
    (tea,) = await remember(reader.superuser, "ana", [Fact("tea")])
    counter = AccessCounter(reader)
    await counter.start()
    counter.returned(ANA, [tea])
    await eventually(lambda: counters(reader.superuser) == {tea: 1})
    counter.returned(ANA, [tea])
    await counter.stop()
    assert counters(reader.superuser) == {tea: 2}


async def test_d11_a_memory_that_is_removed_meanwhile_costs_no_other_its_count(
    reader: Reader,
) -> None:
    """As when a user is erased just as the counts of others of the tenant are written."""
    tea, jam = await remember(reader.superuser, "ana", [Fact("tea"), Fact("jam")])
    counter = AccessCounter(reader)
    counter.returned(ANA, [tea, jam])
    async with await psycopg.AsyncConnection.connect(reader.superuser) as removing:
        await removing.execute("DELETE FROM memories WHERE memory_id = %s", [tea])
        writing = asyncio.create_task(counter._counts.flush())
        blocked = (
            "SELECT 1 FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        await eventually(lambda: rows(reader.superuser, blocked))
        await removing.commit()
    await writing
    await counter._counts.flush()
    assert counters(reader.superuser) == {jam: 1}
