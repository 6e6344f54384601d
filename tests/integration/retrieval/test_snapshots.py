"""Who is held, for how long, and how much of it: the rules of `Snapshots`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import psycopg
import pytest

from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.snapshots import Snapshots
from hitherto_retrieval.storage import people
from hitherto_retrieval.storage.loading import MOST_MEMORIES
from hitherto_retrieval.storage.people import UserReadState
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.errors import Unavailable
from hitherto_shared.metrics import REGISTRY
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import Statistics
from tests.integration.retrieval.questions import ANA, Reader, answer
from tests.integration.retrieval.seed import TENANT, Fact, remember

MEBIBYTE = 1 << 20


class OutOfReach:
    """A database that nobody answers at."""

    async def run(
        self,
        work: Callable[[Connection], Awaitable[Any]],
        *,
        timeout: float,
        repeatable: bool = False,
    ) -> Any:
        raise Unavailable("gone", reason="DATABASE_UNAVAILABLE")


async def people_with_memories(conninfo: str, *names: str, count: int = 3) -> None:
    for name in names:
        facts = [Fact(f"{name} likes tea number {n}") for n in range(count)]
        await remember(conninfo, name, facts, embedder=OfflineEmbedder())


async def read(reader: Database, snapshots: Snapshots, *names: str) -> list[bool]:
    """One read of each: whether it was answered from what is held."""
    found = []
    for name in names:
        scope = Scope(TENANT, name)
        with acting_for(TENANT):
            user = await answer(reader, people.user(scope))
            found.append(snapshots.of(scope, user, reader) is not None)
        await snapshots.loaded()
    return found


def change(conninfo: str, statement: str) -> None:
    with psycopg.connect(conninfo) as connection:
        connection.execute(statement)


async def test_who_comes_back_unchanged_is_held(reader: Reader) -> None:
    """The first read notes the revision, the second has it loaded, the third is answered.

    After a change, it begins anew.
    """
    await people_with_memories(reader.superuser, "ana")
    snapshots = Snapshots(reader, MEBIBYTE)
    assert [(await read(reader, snapshots, "ana"))[0] for _ in range(4)] == [
        False,
        False,
        True,
        True,
    ]
    assert ANA in snapshots
    assert 0 < snapshots.bytes <= MEBIBYTE
    change(reader.superuser, "UPDATE memories SET importance = 0.9 WHERE user_id = 'ana'")
    assert await read(reader, snapshots, *["ana"] * 3) == [False, False, True]
    await snapshots.stop()
    assert (len(snapshots), snapshots.bytes) == (0, 0)


async def test_who_is_written_to_between_reads_is_never_loaded(reader: Reader) -> None:
    await people_with_memories(reader.superuser, "ana")
    snapshots = Snapshots(reader, MEBIBYTE)
    for number in range(5):
        change(reader.superuser, f"UPDATE memories SET importance = 0.{number + 1}")
        assert await read(reader, snapshots, "ana") == [False]
    assert len(snapshots) == 0


async def test_the_bound_is_kept_by_those_used_last(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit by itself is not held at all, and pushes nobody out."""
    monkeypatch.setattr("hitherto_retrieval.snapshots.IDLE_SECONDS", 0.0)
    monkeypatch.setattr("hitherto_retrieval.snapshots.REPLACING_SECONDS", 0.0)
    names = ("ana", "ben", "cam")
    await people_with_memories(reader.superuser, *names)
    measured = Snapshots(reader, MEBIBYTE, after=0)
    await read(reader, measured, "ana")
    one = measured.bytes
    snapshots = Snapshots(reader, 2 * one + one // 2, after=0)
    await read(reader, snapshots, "ana", "ben")
    assert await read(reader, snapshots, "ana") == [True]
    await read(reader, snapshots, "cam", "cam")
    cached = [Scope(TENANT, name) in snapshots for name in names]
    assert cached == [True, False, True]
    assert snapshots.bytes == 2 * one
    await people_with_memories(reader.superuser, "dee", count=200)
    large = Snapshots(reader, 64 * MEBIBYTE, after=0)
    await read(reader, large, "dee")
    assert large.bytes > 2 * one + one // 2
    await read(reader, snapshots, "dee", "dee")
    assert [Scope(TENANT, name) in snapshots for name in (*names, "dee")] == [*cached, False]


async def test_a_large_newcomer_pushes_nobody_out_who_is_in_use(reader: Reader) -> None:
    await people_with_memories(reader.superuser, "ana", "ben")
    await people_with_memories(reader.superuser, "dee", count=60)
    small, large = Snapshots(reader, MEBIBYTE, after=0), Snapshots(reader, MEBIBYTE, after=0)
    await read(reader, small, "ana", "ben")
    await read(reader, large, "dee")
    assert large.bytes > small.bytes
    snapshots = Snapshots(reader, small.bytes + large.bytes - 1, after=0)
    await read(reader, snapshots, "ana", "ben", "dee", "dee")
    assert await read(reader, snapshots, "ana", "ben", "dee") == [True, True, False]


async def test_who_takes_turns_with_many_pushes_nobody_out(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P3: else each of more users than there is room for would be loaded at every read in vain."""
    names = [f"user{number}" for number in range(6)]
    await people_with_memories(reader.superuser, *names)
    measured = Snapshots(reader, MEBIBYTE, after=0)
    await read(reader, measured, names[0])
    snapshots = Snapshots(reader, 3 * measured.bytes + measured.bytes // 2)
    for _ in range(3):
        await read(reader, snapshots, *names)
    assert len(snapshots) == 3
    loads = loaded()
    for _ in range(4):
        assert sum(await read(reader, snapshots, *names)) == 3
    assert loaded() == loads
    # Once those who are held have been away for long enough, others take their places.
    monkeypatch.setattr("hitherto_retrieval.snapshots.IDLE_SECONDS", 0.0)
    away = next(name for name in names if Scope(TENANT, name) not in snapshots)
    assert (await read(reader, snapshots, *[away] * 3))[-1]


async def test_pushing_out_takes_a_bounded_part_of_the_time(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P3: users who ask in any order, more than there is room for, are seldom loaded."""
    names = [f"user{number}" for number in range(6)]
    await people_with_memories(reader.superuser, *names)
    measured = Snapshots(reader, MEBIBYTE, after=0)
    await read(reader, measured, names[0])
    snapshots = Snapshots(reader, 2 * measured.bytes + measured.bytes // 2)
    order = Random(0).choices(names, k=60)
    monkeypatch.setattr("hitherto_retrieval.snapshots.IDLE_SECONDS", 0.0)
    monkeypatch.setattr("hitherto_retrieval.snapshots.REPLACING_SECONDS", 3_600.0)
    loads = loaded()
    await read(reader, snapshots, *order)
    assert loaded() - loads == 3, "two into free room, one in place of another"
    monkeypatch.setattr("hitherto_retrieval.snapshots.REPLACING_SECONDS", 0.0)
    loads = loaded()
    await read(reader, snapshots, *order)
    assert loaded() - loads > 10


def loaded() -> float:
    """How many snapshots were loaded."""
    return REGISTRY.get_sample_value("hitherto_snapshot_loads_total") or 0.0


async def test_a_replica_that_is_behind_neither_uses_nor_ends_it(reader: Reader) -> None:
    """D12: each server is believed about its own state only."""
    await people_with_memories(reader.superuser, "ana")
    snapshots = Snapshots(reader, MEBIBYTE, after=0)
    await read(reader, snapshots, "ana")
    user: UserReadState = await answer(reader, people.user(ANA))
    assert snapshots.of(ANA, replace(user, revision=user.revision - 1), reader) is None
    assert snapshots.of(ANA, user, reader) is not None
    assert snapshots.of(ANA, replace(user, active_model=("other", 384)), reader) is None
    await snapshots.loaded()
    assert ANA not in snapshots


@pytest.mark.parametrize(
    "state",
    [
        {"may_be_sealed": True},
        {"erased": True},
        {"active_model": None},
        {"statistics": Statistics(MOST_MEMORIES + 1, 9_000)},
    ],
)
async def test_some_are_not_held_and_leave(reader: Reader, state: dict[str, Any]) -> None:
    await people_with_memories(reader.superuser, "ana")
    snapshots = Snapshots(reader, MEBIBYTE, after=0)
    await read(reader, snapshots, "ana")
    assert ANA in snapshots
    user = await answer(reader, people.user(ANA))
    assert snapshots.of(ANA, replace(user, **state), reader) is None
    assert ANA not in snapshots


async def test_who_decided_on_encryption_meanwhile_is_not_kept(reader: Reader) -> None:
    """H3: between the read that has it loaded and the loading."""
    await people_with_memories(reader.superuser, "ana")
    snapshots = Snapshots(reader, MEBIBYTE, after=0)
    user = await answer(reader, people.user(ANA))
    change(reader.superuser, "UPDATE users SET encrypt_sensitive = true")
    snapshots.of(ANA, user, reader)
    await snapshots.loaded()
    assert len(snapshots) == 0


async def test_what_expires_ends_what_is_held(reader: Reader) -> None:
    """B9, D1: by the database's clock alone; it is loaded anew as after a change."""
    hour = timedelta(hours=1)
    model, now = ("test-model", 8), datetime.now(UTC)
    await remember(reader.superuser, "ana", [Fact("long"), Fact("short", expires_at=now + hour)])
    change(reader.superuser, f"INSERT INTO embedding_models VALUES ('{model[0]}', 8, true)")
    snapshots = Snapshots(reader, MEBIBYTE, after=0)
    await read(reader, snapshots, "ana")
    user = await answer(reader, people.user(ANA))
    assert snapshots.of(ANA, replace(user, at=now + hour - timedelta(microseconds=1)), reader)
    for later in (now + hour, now + 2 * hour):
        assert snapshots.of(ANA, replace(user, at=later), reader) is None
        assert ANA not in snapshots
        await snapshots.loaded()
        assert snapshots.of(ANA, user, reader)


async def test_the_sweep_lets_go_of_whoever_changed(reader: Reader) -> None:
    names: Sequence[str] = ("ana", "ben", "cam", "dee")
    await people_with_memories(reader.superuser, *names)
    snapshots = Snapshots(reader, MEBIBYTE, after=0)
    await read(reader, snapshots, *names)
    change(reader.superuser, "UPDATE memories SET importance = 0.9 WHERE user_id = 'ben'")
    change(reader.superuser, "UPDATE users SET erased_at = now() WHERE user_id = 'cam'")
    change(reader.superuser, "UPDATE users SET encrypt_sensitive = false WHERE user_id = 'dee'")
    await snapshots.sweep()
    assert [Scope(TENANT, name) in snapshots for name in names] == [True, False, False, False]


async def test_what_cannot_be_checked_is_let_go(reader: Reader) -> None:
    await people_with_memories(reader.superuser, "ana")
    snapshots = Snapshots(OutOfReach(), MEBIBYTE, after=0)
    await read(reader, snapshots, "ana")
    assert ANA in snapshots
    await snapshots.sweep()
    assert len(snapshots) == 0


async def test_a_load_that_fails_is_tried_again_some_reads_later_or_once_the_user_changes(
    reader: Reader,
) -> None:
    await people_with_memories(reader.superuser, "ana")
    snapshots = Snapshots(reader, MEBIBYTE, after=0)
    user = await answer(reader, people.user(ANA))
    assert snapshots.of(ANA, user, OutOfReach()) is None
    await snapshots.loaded()
    assert len(snapshots) == 0
    assert await read(reader, snapshots, *["ana"] * 12) == [False] * 11 + [True]
    snapshots.drop(ANA)
    assert snapshots.of(ANA, user, OutOfReach()) is None
    await snapshots.loaded()
    change(reader.superuser, "UPDATE memories SET importance = 0.9 WHERE user_id = 'ana'")
    assert await read(reader, snapshots, *["ana"] * 2) == [False, True]


async def test_row_level_security_holds_for_load_and_sweep(reader: Reader) -> None:
    """H4: on connections that were lent for another tenant a moment ago."""
    await people_with_memories(reader.superuser, "ana")
    snapshots = Snapshots(reader, MEBIBYTE, after=0)
    stranger = Scope("elsewhere", "ana")
    with acting_for("elsewhere"):
        theirs = await answer(reader, people.user(stranger))
        assert not theirs.known
        # As if something had told the stranger's process otherwise.
        ours = replace(theirs, revision=1)
        assert snapshots.of(stranger, ours, reader) is None
    await snapshots.loaded()
    assert stranger not in snapshots
    await read(reader, snapshots, "ana")
    with acting_for("elsewhere"):
        await snapshots.sweep()
    assert ANA in snapshots


async def test_metrics_tell_hits_and_size(reader: Reader) -> None:
    """Each read counts once, however often it asks whether what is held still holds."""

    def shown() -> list[float | None]:
        lookups = "hitherto_snapshot_lookups_total"
        return [
            REGISTRY.get_sample_value(lookups, {"result": "hit"}) or 0.0,
            REGISTRY.get_sample_value(lookups, {"result": "miss"}) or 0.0,
            REGISTRY.get_sample_value("hitherto_snapshots"),
            REGISTRY.get_sample_value("hitherto_snapshot_bytes"),
        ]

    await people_with_memories(reader.superuser, "ana")
    snapshots = Snapshots(reader, MEBIBYTE, after=0)
    hits, misses = shown()[:2]
    assert hits is not None
    assert misses is not None
    for _ in range(3):
        with acting_for(TENANT):
            reads = UserReads(ANA, None, snapshots)
            state = await answer(reader, reads.confirming or people.user(ANA))
            for _ in range(2):
                reads.confirm(state, reader)
                assert (reads.snapshot is None) == (reads.confirming is None)
            await snapshots.loaded()
    assert shown() == [hits + 2, misses + 1, 1.0, snapshots.bytes]
    await snapshots.stop()
    assert shown()[2:] == [0.0, 0.0]
