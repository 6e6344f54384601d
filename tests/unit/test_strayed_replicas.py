"""Which replica strays, and which database is asked; integration/replica/ has real servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from psycopg.errors import SerializationFailure
from psycopg_pool import PoolTimeout, TooManyRequests

from hitherto_retrieval import readers
from hitherto_retrieval.readers import Readers
from hitherto_shared import metrics
from hitherto_shared.consistency import ConsistencyTokens, Lineage, Position
from hitherto_shared.database.faults import no_answer_in_time
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import TooLate
from tests.waiting import eventually


class Server:
    """Stands for a database: it tells its lineage, which is its connection as well."""

    def __init__(self, lineage: Lineage) -> None:
        self.lineage = lineage
        self.slow = False
        self.errors: list[Exception] = []
        self.calls = 0
        self.is_distributed = False

    async def run(self, work: Callable[[Connection], Awaitable[Any]], **_: object) -> Any:
        self.calls += 1
        if self.slow:
            raise no_answer_in_time()
        if self.errors:
            raise self.errors.pop(0)
        return await work(cast(Connection, self))

    async def open(self, **_: object) -> None:
        if self.slow:
            raise PoolTimeout

    async def answers(self, **_: object) -> bool:
        return not self.slow

    async def close(self) -> None:
        """Nothing is open."""


TOKENS = ConsistencyTokens(b"s" * 32)


def watching(*servers: Server) -> Readers:
    """The primary and its replica, as the service reads from them."""
    first, second = (cast(Database, each) for each in servers)
    return Readers(first, second, TOKENS)


async def read(_: Connection) -> str:
    return "read"


PRIMARY, FOLLOWER = Lineage("a", 2, standby=False), Lineage("a", 2, standby=True)
PROMOTED = Lineage("a", 3, standby=False)


async def test_a_strayed_replica_is_told_from_one_that_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lineage_of(connection: Connection) -> Lineage:
        return cast(Server, connection).lineage

    monkeypatch.setattr(readers, "lineage_of", lineage_of)
    for primary, replica, strayed in (
        (PRIMARY, PROMOTED, True),
        (PRIMARY, Lineage("a", 1, standby=True), True),
        (PRIMARY, Lineage("a", 3, standby=True), True),
        (PRIMARY, Lineage("b", 2, standby=False), True),
        (FOLLOWER, Lineage("b", 2, standby=True), True),
        (PRIMARY, FOLLOWER, False),
        # After a failover both strings may name one server.
        (PRIMARY, PRIMARY, False),
        # The control files of two standbys need not agree.
        (FOLLOWER, Lineage("a", 1, standby=True), False),
        (Lineage("a", 1, standby=True), PRIMARY, False),
    ):
        servers = [Server(primary), Server(replica)]
        watched = watching(*servers)
        assert await watched._strayed() is strayed, (primary, replica)
        for slow in servers:
            # A slow primary readmits no strayed replica, nor gets the reads of one that follows.
            slow.slow = True
            assert await watched._strayed() is strayed, (primary, replica)
            slow.slow = False


async def test_a_replica_that_gave_no_answer_is_not_asked_again_after_the_primary() -> None:
    servers = [Server(PRIMARY), Server(FOLLOWER)]
    watched = watching(*servers)
    for each in servers:
        each.slow = True
    with pytest.raises(TooLate):
        await watched.choose("", "tenant").run(read, timeout=60, repeatable=True)
    assert [each.calls for each in servers] == [1, 1]
    await watched.close()


async def test_without_the_primary_a_large_gap_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = [2 << 20, 2 << 20, 0]

    async def bytes_missing(*_: object) -> int:
        return missing.pop(0)

    monkeypatch.setattr(readers, "bytes_missing", bytes_missing)
    servers = [Server(PRIMARY), Server(FOLLOWER)]
    watched = watching(*servers)
    servers[0].slow = True
    token = TOKENS.make(Position("0/1", "1", "a"), "tenant")
    chosen = watched.choose(token, "tenant")
    assert await chosen.run(read, timeout=60, repeatable=True) == "read"
    await watched.close()


async def test_who_looks_up_a_key_does_not_wait_for_a_primary_that_is_lost() -> None:
    servers = [Server(PRIMARY), Server(FOLLOWER)]
    watched = watching(*servers)
    servers[0].slow = True
    assert await watched.keys.run(read, timeout=60, repeatable=True) == "read"
    await eventually(lambda: not watched._primary.in_reach)
    assert await watched.keys.run(read, timeout=60, repeatable=True) == "read"
    assert [each.calls for each in servers] == [1, 2]
    await watched.close()


async def test_a_replica_that_is_busy_or_replays_is_not_taken_for_a_lost_one() -> None:
    async def work(_: Connection) -> str:
        return "read"

    for error, calls in ((TooManyRequests(), [1, 1]), (SerializationFailure(), [0, 2])):
        servers = [Server(PRIMARY), Server(FOLLOWER)]
        first, second = (cast(Database, each) for each in servers)
        watched = Readers(first, second, ConsistencyTokens(b"s" * 32))
        servers[1].errors.append(error)
        chosen = watched.choose("", "tenant")
        assert await chosen.run(work, timeout=60, repeatable=True) == "read"
        assert [each.calls for each in servers] == calls
        assert watched._replica is not None
        assert watched._replica.in_reach
        await watched.close()


async def test_a_primary_that_was_lost_at_the_start_is_bypassed_until_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lineage_of(connection: Connection) -> Lineage:
        return cast(Server, connection).lineage

    monkeypatch.setattr(readers, "lineage_of", lineage_of)
    shown = metrics.DATABASE_REACHABLE.labels("primary")
    servers = [Server(PRIMARY), Server(FOLLOWER)]
    first, second = (cast(Database, each) for each in servers)
    watched = Readers(first, second, ConsistencyTokens(b"s" * 32))
    servers[0].slow = True
    await watched.open()
    assert (watched._primary.in_reach, shown._value.get()) == (False, 0)
    servers[0].slow = False
    await eventually(lambda: watched._primary.in_reach)
    assert shown._value.get() == 1
    await watched.close()
