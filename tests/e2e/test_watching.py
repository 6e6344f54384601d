"""Changes reach those who watch them: all of them, in order, and nobody else (G9)."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime

import grpc
import psycopg
import pytest

from hitherto.v1 import (
    history_pb2,
    memory_pb2,
    memory_service_pb2,
    retrieval_service_pb2,
    retrieval_service_pb2_grpc,
)
from hitherto_extraction.telling.places import delete_old_changes
from hitherto_retrieval.change_feed import ChangeFeed, Selection
from hitherto_shared.changes import ToldChange
from hitherto_shared.database.pool import Database
from tests.e2e.conftest import Services, StartServices
from tests.e2e.credentials import bearer
from tests.e2e.curating import change, forget, restore, save, update
from tests.e2e.learning import rows
from tests.e2e.leaving import erase
from tests.e2e.methods import METHODS, ask, read_refusal, refused
from tests.e2e.privacy import choose
from tests.e2e.sealing import change_profile
from tests.e2e.sessions import refusal_of
from tests.e2e.watching import Watcher, kind_of
from tests.tenants import ISSUED, Tenant
from tests.waiting import eventually

WATCH = METHODS["RetrievalService/WatchMemories"]


async def test_g9_each_change_is_told_once_committed_with_its_version(services: Services) -> None:
    async with Watcher(services) as ana, Watcher(services, "", include_content=True) as everybody:
        saved = await save(services, "Ana lives in Leith.")
        memory_id = saved.memory.id
        await update(services, memory_id, "content", content="Ana lives in Portobello.")
        await forget(services, memory_id)
        await restore(services, memory_id)
        await change_profile(services, summary="A cellist.")
        other = await save(services, "Ben plays chess.", user="ben")
        await ana.until_count(5)
        await everybody.until_count(6)
        assert [(kind_of(each), each.memory_id, each.version) for each in ana.heard] == [
            ("created", memory_id, 1),
            ("updated", memory_id, 2),
            ("forgotten", memory_id, 3),
            ("restored", memory_id, 4),
            ("created", "", 1),
        ]
        forgotten = ana.heard[2]
        assert forgotten.previous_status == memory_pb2.MEMORY_STATUS_ACTIVE
        assert forgotten.status == memory_pb2.MEMORY_STATUS_FORGOTTEN
        assert not any(each.HasField("memory") for each in ana.heard)
        # The same stream, with everybody's changes and contents.
        assert everybody.heard[-1].memory.content == "Ben plays chess."
        assert everybody.heard[-1].user_id == "ben"
        assert everybody.heard[-1].memory.id == other.memory.id
        seen = {"memory_id": memory_id, "consistency_token": ana.consistency_token}
        assert (await ask(services, "GetMemory", **seen)).memory.version == 4
    # Filtered, and again from the token of a stream that has ended.
    async with Watcher(services, kinds=[history_pb2.HISTORY_EVENT_KIND_FORGOTTEN]) as filtered:
        await forget(services, memory_id)
        await filtered.until_count(1)
        assert [kind_of(each) for each in filtered.heard] == ["forgotten"]
    async with Watcher(services, after=ana.token) as resumed:
        await resumed.until_count(1)
        assert [(kind_of(each), each.version) for each in resumed.heard] == [("forgotten", 5)]
    # Nor is that told for which something forgotten stands, however far.
    held = memory_id
    for words in ("Ana lives in Rome.", "Ana lives in Oslo."):
        merged = (await save(services, words)).memory.id
        change(
            services.conninfo,
            "UPDATE memories SET status = 'superseded', superseded_by = %(by)s"
            " WHERE memory_id = %(memory_id)s",
            memory_id=merged,
            by=held,
        )
        held = merged
    async with Watcher(services, include_content=True, after=resumed.token) as watching:
        await watching.until_count(2)
        assert not any(each.HasField("memory") for each in watching.heard)


def test_of_what_was_read_for_all_each_is_told_what_comes_after_its_place() -> None:
    made = datetime(2026, 3, 2, tzinfo=UTC)
    read = [
        ToldChange("ana", place, None, "updated", 1, None, None, None, None, made)
        for place in (4, 5, 6)
    ]
    assert Selection("acme", "ana", frozenset()).of(read, 5) == read[2:]
    assert Selection("acme", "ben", frozenset()).of(read, 3) == []


async def test_a_heartbeat_moves_the_token_past_the_changes_of_others(services: Services) -> None:
    async with Watcher(services, seconds=1) as ana:
        before = ana.token
        async with Watcher(services, "ben") as ben:
            await save(services, "Ben plays chess.", user="ben")
            await ben.until_count(1)
        for _ in range(3):
            assert not (await ana.message()).changes
        assert ana.token != before
    async with Watcher(services, after=ana.token) as resumed:
        await save(services, "Ana lives in Leith.")
        await resumed.until_count(1)
        assert [each.user_id for each in resumed.heard] == ["ana"]


_HOLD_BEN = """
CREATE FUNCTION hold_ben() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER hold_ben AFTER INSERT ON memory_changes DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.user_id = 'ben') EXECUTE FUNCTION hold_ben();
"""


async def test_g9_a_change_that_commits_late_is_not_missed_by_who_has_seen_later_ones(
    services: Services, superuser_conninfo: str, conninfo: str
) -> None:
    """Ben's change is numbered before Ana's and committed after it has been told."""
    async with await psycopg.AsyncConnection.connect(
        superuser_conninfo, autocommit=True, options="-c search_path=hitherto"
    ) as admin:
        await admin.execute(_HOLD_BEN)
        await admin.execute("SELECT pg_advisory_lock(77)")
        async with Watcher(services, "") as watcher:
            late = asyncio.ensure_future(save(services, "Ben plays chess.", user="ben"))
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            await eventually(lambda: rows(superuser_conninfo, waiting) == [(1,)])
            await save(services, "Ana lives in Leith.")
            await watcher.until_count(1)
        assert [each.user_id for each in watcher.heard] == ["ana"]
        await admin.execute("SELECT pg_advisory_unlock(77)")
        saved = await late
    async with Watcher(services, "", after=watcher.token) as resumed:
        await resumed.until_count(1)
        assert [(each.user_id, each.memory_id) for each in resumed.heard] == [
            ("ben", saved.memory.id)
        ]


async def test_g9_writers_at_once_and_a_watcher_that_comes_and_goes(services: Services) -> None:
    people = [f"user-{number}" for number in range(6)]
    done = asyncio.Event()

    async def write(user: str) -> None:
        chance = random.Random(user)
        for number in range(8):
            memory = (await save(services, f"Thing {number} of {user}.", user=user)).memory
            for _ in range(chance.randrange(3)):
                await update(
                    services, memory.id, "importance", user=user, importance=chance.random()
                )

    async def write_all() -> None:
        await asyncio.gather(*map(write, people))
        done.set()

    heard: set[tuple[str, str, int]] = set()
    order: dict[str, list[int]] = {}
    async with Watcher(services, "") as first:
        token = first.token
    writing = asyncio.ensure_future(write_all())
    stored: set[tuple[str, str, int]] = set()
    while not (done.is_set() and heard >= stored):
        async with Watcher(services, "", after=token, seconds=1) as watcher:
            for _ in range(random.randrange(3)):
                await watcher.message()
        token = watcher.token
        for each in watcher.heard:
            assert each.version == len(order.setdefault(each.memory_id, [])) + 1
            order[each.memory_id].append(each.version)
            heard.add((each.user_id, each.memory_id, each.version))
        if done.is_set():
            made = "SELECT user_id, memory_id::text, version FROM history WHERE subject = 'memory'"
            found = rows(services.conninfo, made)
            stored = {(user, memory_id, version) for user, memory_id, version in found}
            assert len(found) == len(stored)
    await writing
    assert heard == stored
    assert len(stored) > len(people) * 8


async def test_walls_between_tenants_and_people(services: Services, tenant: Tenant) -> None:
    """A credential of one person, and one of another tenant, hear nothing of others (E4)."""
    personal = ISSUED.token(sub="ana", tenant=tenant.tenant_id, scope="read")
    bound = ISSUED.token(
        sub="svc",
        tenant=tenant.tenant_id,
        scope="read",
        hitherto_user_scope="any",
        departments=["sales"],
    )
    other = Tenant()
    ana, elsewhere = bearer(personal), bearer(other.token)
    async with (
        # Without a user, a person's credential means that person.
        Watcher(services, "", metadata=ana) as own,
        Watcher(services, "", metadata=elsewhere) as foreign,
        Watcher(services, "ben", metadata=elsewhere) as namesake,
    ):
        await save(services, "Ben plays chess.", user="ben")
        await save(services, "Ana lives in Leith.")
        await own.until_count(1)
        assert {each.user_id for each in own.heard} == {"ana"}
        await services.memory.SaveMemory(
            memory_service_pb2.SaveMemoryRequest(user_id="ben", content="Ben rows."),
            metadata=elsewhere,
        )
        await foreign.until_count(1)
        await namesake.until_count(1)
        assert len(foreign.heard) == len(namesake.heard) == 1
        assert foreign.heard[0].memory_id == namesake.heard[0].memory_id

    def asks(user: str, after: str = "") -> retrieval_service_pb2.WatchMemoriesRequest:
        return retrieval_service_pb2.WatchMemoriesRequest(user_id=user, after=after)

    for request, metadata, reason in (
        (asks("ben"), ana, "USER_NOT_ALLOWED"),
        (asks(""), bearer(bound), "USER_NOT_ALLOWED"),
        (asks("ben", own.token), bearer(tenant.token), "INVALID_WATCH_TOKEN"),
        (asks("ben", namesake.token), bearer(tenant.token), "INVALID_WATCH_TOKEN"),
    ):
        refusal = await refused(services, WATCH, request, metadata=metadata)
        assert refusal.reason == reason


async def test_g4_nothing_is_told_of_who_is_erased_or_has_memory_off(services: Services) -> None:
    async with Watcher(services, "") as first:
        pass
    for user in ("ana", "ben", "cy"):
        await save(services, f"{user} plays chess.", user=user)
    async with Watcher(services, "", after=first.token) as before:
        await before.until_count(3)
    await choose(services, user="ben", memory_enabled=False)
    assert (await erase(services)).counts["memory_changes"] == 1
    left = "SELECT user_id FROM memory_changes WHERE user_id = 'ana'"
    assert rows(services.conninfo, left) == []
    async with Watcher(services, "", after=first.token) as after:
        await save(services, "Cy rows.", user="cy")
        await after.until_count(2)
        assert [each.user_id for each in after.heard] == ["cy", "cy"]


async def test_what_is_no_longer_kept_is_said_and_not_skipped(
    services: Services, superuser_conninfo: str, conninfo: str
) -> None:
    async with Watcher(services) as unheard:
        token = unheard.token
        await save(services, "Ana lives in Leith.")
        await unheard.until_count(1)
    age = "UPDATE memory_changes SET recorded_at = now() - interval '8 days' RETURNING version"
    assert rows(superuser_conninfo, age) == [(1,)]
    database = Database(conninfo, "hitherto_maintenance", application="hitherto-extraction")
    await database.open()
    try:
        assert await delete_old_changes(database, 9) == 0
        assert await delete_old_changes(database, 7) == 1
    finally:
        await database.close()
    # Whoever has heard of it goes on; whoever has not is told so.
    async with Watcher(services, after=unheard.token) as resumed:
        assert not resumed.heard
    request = retrieval_service_pb2.WatchMemoriesRequest(user_id="ana", after=token)
    refusal = await refused(services, WATCH, request)
    assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
    assert refusal.reason == "CHANGES_EXPIRED"
    # As after the restoration of a backup that is older than the token.
    back = "UPDATE change_positions SET deleted = 0, given = 0 RETURNING given"
    async with Watcher(services, after=unheard.token) as watching:

        async def listen() -> None:
            async with asyncio.timeout(60):
                while True:
                    await watching.message()

        assert rows(superuser_conninfo, back) == [(0,)]
        assert (await refusal_of(listen())).reason == "CHANGES_EXPIRED"
    request.after = unheard.token
    assert (await refused(services, WATCH, request)).reason == "CHANGES_EXPIRED"


async def test_who_watches_comes_again_after_a_defect_of_the_poll(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat would say that there is nothing new."""
    read = ChangeFeed._read

    async def defect(feed: ChangeFeed, selection: Selection, after: int | None) -> object:
        if selection.user_id is None:
            raise RuntimeError("of the poll")
        return await read(feed, selection, after)

    async with Watcher(services, seconds=1) as ana:
        await save(services, "Ana lives in Leith.")
        await ana.until_count(1)
        monkeypatch.setattr(ChangeFeed, "_read", defect)
        await save(services, "Ana plays chess.")
        refusal = await refusal_of(ana.message())
        assert (refusal.code, refusal.reason) == (
            grpc.StatusCode.UNAVAILABLE,
            "DATABASE_UNAVAILABLE",
        )
        monkeypatch.setattr(ChangeFeed, "_read", read)
        # Also if the one before has not left yet.
        async with Watcher(services, after=ana.token) as again:
            await save(services, "Ana rows.")
            await again.until_count(2)


async def test_i2_watchers_leave_when_the_service_stops(start_services: StartServices) -> None:
    async with AsyncExitStack() as outlasting:
        async with start_services(drain_seconds=60.0) as services:
            # The channels of `services` are closed before these stop.
            channel = await outlasting.enter_async_context(
                grpc.aio.insecure_channel(services.retrieval_address)
            )
            stub = retrieval_service_pb2_grpc.RetrievalServiceStub(channel)
            watcher = await outlasting.enter_async_context(
                Watcher(replace(services, retrieval=stub))
            )
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await watcher.message()
    refusal = read_refusal(ended.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN")
