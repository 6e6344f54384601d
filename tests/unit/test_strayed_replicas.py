"""Which replicas do not follow the primary, and when one is used again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from hitherto_retrieval import database_health, readers
from hitherto_retrieval.readers import Readers
from hitherto_shared.consistency import ConsistencyTokens, Lineage
from hitherto_shared.database.faults import no_answer_in_time
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import TooLate

PRIMARY = Lineage("a", 2, standby=False)
FOLLOWER = Lineage("a", 2, standby=True)
PROMOTED = Lineage("a", 3, standby=False)


class Server:
    """Stands for a database: it tells its lineage, which is its connection as well."""

    is_distributed = False

    def __init__(self, lineage: Lineage) -> None:
        self.lineage = lineage
        self.slow = False
        self.asked = 0

    async def open(self, *, timeout: float) -> None:
        """Nothing to connect."""

    async def close(self) -> None:
        """Nothing to close."""

    async def answers(self, *, timeout: float) -> bool:
        return True

    async def run(
        self,
        work: Callable[[Connection], Awaitable[Any]],
        *,
        timeout: float,
        repeatable: bool = False,
    ) -> Any:
        self.asked += 1
        if self.slow:
            raise no_answer_in_time()
        return await work(cast(Connection, self))


@pytest.fixture(autouse=True)
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks and probes without pauses; the servers need no statement."""

    async def lineage_of(connection: Connection) -> Lineage:
        return cast(Server, connection).lineage

    monkeypatch.setattr(readers, "lineage_of", lineage_of)
    monkeypatch.setattr(readers, "_WATCH_SECONDS", 0.01)
    monkeypatch.setattr(database_health, "_FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(database_health, "_LONGEST_PAUSE_SECONDS", 0.01)


async def looks(server: Server, times: int = 5) -> None:
    """Wait until the server was asked some more times."""
    until = server.asked + times
    async with asyncio.timeout(60):
        while server.asked < until:  # noqa: ASYNC110 - the readers' own work
            await asyncio.sleep(0.01)


class Pair:
    """A primary and a replica, and the readers of the two."""

    def __init__(self, primary: Lineage, replica: Lineage) -> None:
        self.primary, self.replica = Server(primary), Server(replica)
        self._readers = Readers(
            cast(Database, self.primary), cast(Database, self.replica), ConsistencyTokens(b"s" * 32)
        )

    async def __aenter__(self) -> Pair:
        await self._readers.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._readers.close()

    async def answering(self) -> Server:
        """Who answers a read without a token."""
        reads = await self._readers.choose("", "tenant", timeout=60)

        async def which(connection: Connection) -> Server:
            return cast(Server, connection)

        return await reads.run(which, timeout=60, repeatable=True)


@pytest.mark.parametrize(
    ("primary", "replica"),
    [
        pytest.param(PRIMARY, PROMOTED, id="promoted"),
        pytest.param(PRIMARY, Lineage("a", 1, standby=True), id="follows the old primary"),
        pytest.param(PRIMARY, Lineage("a", 3, standby=True), id="follows another promoted server"),
        pytest.param(PRIMARY, Lineage("b", 2, standby=False), id="another database"),
        pytest.param(PRIMARY, Lineage("b", 2, standby=True), id="standby of another database"),
        pytest.param(FOLLOWER, Lineage("b", 2, standby=True), id="two standbys of two databases"),
    ],
)
async def test_a_strayed_replica_is_bypassed(primary: Lineage, replica: Lineage) -> None:
    async with Pair(primary, replica) as pair:
        await looks(pair.primary)
        assert await pair.answering() is pair.primary
        pair.replica.lineage = Lineage(primary.database, primary.timeline, standby=True)
        await looks(pair.primary)
        assert await pair.answering() is pair.replica


@pytest.mark.parametrize(
    ("primary", "replica"),
    [
        pytest.param(PRIMARY, FOLLOWER, id="standby"),
        pytest.param(PRIMARY, PRIMARY, id="the same server"),
        # The control files of two standbys need not agree.
        pytest.param(FOLLOWER, Lineage("a", 1, standby=True), id="two standbys"),
        pytest.param(Lineage("a", 1, standby=True), PRIMARY, id="primary and replica swapped"),
    ],
)
async def test_a_replica_that_follows_is_used(primary: Lineage, replica: Lineage) -> None:
    async with Pair(primary, replica) as pair:
        await looks(pair.primary)
        assert await pair.answering() is pair.replica


async def test_a_slow_answer_of_the_primary_readmits_no_strayed_replica() -> None:
    async with Pair(PRIMARY, PROMOTED) as pair:
        await looks(pair.primary)
        pair.primary.slow = True
        await looks(pair.primary)
        pair.primary.slow = False
        assert await pair.answering() is pair.primary


async def test_a_slow_answer_of_the_primary_leaves_a_replica_that_follows_in_use() -> None:
    """Otherwise a busy primary would get the reads of the replica as well."""
    async with Pair(PRIMARY, FOLLOWER) as pair:
        await looks(pair.primary)
        pair.primary.slow = True
        pair.replica.slow = True
        with pytest.raises(TooLate):
            await pair.answering()
        pair.replica.slow = False
        await looks(pair.primary)
        pair.primary.slow = False
        assert await pair.answering() is pair.replica
