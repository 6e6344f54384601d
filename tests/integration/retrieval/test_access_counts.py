"""Access counters (D11): what one flush wrote is not written by the next."""

from __future__ import annotations

import asyncio
from uuid import UUID

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
    async with asyncio.timeout(30):
        while counters(superuser_conninfo) != {tea: 1}:  # noqa: ASYNC110 - another's work
            await asyncio.sleep(0.05)
    counter.returned(ANA, [tea])
    await counter.stop()
    assert counters(superuser_conninfo) == {tea: 2}
