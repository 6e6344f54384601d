"""Shares of tenants and of people in them, and the rounds in which those who wait are served."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest

from hitherto_shared import offloading
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.errors import Exhausted
from hitherto_shared.offloading import in_thread
from hitherto_shared.rpc.bodies import MAX_BODY_BYTES, Body
from hitherto_shared.rpc.slots import (
    HEALTH_CALLS,
    HEALTH_CALLS_OF_A_CONNECTION,
    HEALTH_CALLS_OF_A_HOST,
    CallSlots,
    HealthSlots,
)
from hitherto_shared.shares import FairQueue, Owner, Shares, Turns, work_for

ANA, BO, BACKEND = Owner("a", "ana"), Owner("a", "bo"), Owner("a")
OTHER = Owner("b", "cleo")
BOUND = 60.0


def test_a_person_has_a_share_of_the_share_of_its_tenant() -> None:
    shares = Shares(16, 0.5, 0.25)
    for _ in range(2):
        assert not shares.lacking(ANA)
        shares.take(ANA)
    assert shares.lacking(ANA) == "person"
    for _ in range(6):
        assert not shares.lacking(BACKEND)
        shares.take(BACKEND)
    assert (shares.lacking(BO), shares.lacking(BACKEND)) == ("tenant", "tenant")
    shares.take(OTHER, 8)
    assert shares.lacking(Owner("c")) == "all"
    shares.give_back(ANA, 2)
    assert (shares.lacking(ANA, 2), shares.lacking(ANA, 3)) == ("", "all")
    # However small the shares, everybody may hold one.
    small = Shares(3, 0.1, 0.1)
    assert not small.lacking(ANA)
    small.take(ANA)
    assert (small.lacking(ANA), small.lacking(OTHER)) == ("tenant", "")


def test_rounds_go_from_tenant_to_tenant_and_in_each_from_person_to_person() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(4):
        queue.put(ANA, number)
    for number, owner in enumerate((BO, OTHER, Owner("c")), 10):
        queue.put(owner, number)
    queue.put(ANA, 4)
    queue.drop(ANA, 2)
    queue.drop(ANA, 99)
    assert (len(queue), queue.waiting("a")) == (7, 5)
    served = [found[1] for found in iter(queue.pop, None)]
    assert sorted(served) == [0, 1, 3, 4, 10, 11, 12]
    # After the first of `a`, the other tenants; after the first of ana, bo.
    assert set(served[:3]) >= {11, 12}
    assert served.index(10) < served.index(3)
    assert (len(queue), queue.pop()) == (0, None)


async def test_a_newcomer_waits_for_one_turn_of_a_crowd() -> None:
    turns = Turns(Shares(1, 1.0, 1.0))
    order: list[str] = []

    async def one(owner: Owner, name: str) -> None:
        async with turns.turn(owner):
            order.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(one(ANA, "ana"))
        await asyncio.sleep(0)
        for owner, name in ((BO, "bo"), (OTHER, "cleo")):
            group.create_task(one(owner, name))
    assert order.index("bo") <= 6
    assert order.index("cleo") <= 6
    assert len(order) == 52


async def test_a_cancelled_turn_is_passed_on() -> None:
    turns = Turns(Shares(1, 1.0, 1.0))
    await turns.take(ANA)
    waiting = [asyncio.create_task(turns.take(owner)) for owner in (BO, OTHER)]
    await asyncio.sleep(0)
    turns.give_back(ANA)
    waiting[0].cancel()
    async with asyncio.timeout(BOUND):
        await waiting[1]
    turns.give_back(OTHER)
    async with asyncio.timeout(BOUND):
        await turns.take(BO)


async def test_room_for_bodies_goes_round() -> None:
    shares = Shares(4 * MAX_BODY_BYTES, 0.5, 0.5, least=MAX_BODY_BYTES)
    bodies = Turns(shares, MAX_BODY_BYTES)
    with Body(bodies, ANA) as held, Body(bodies, ANA) as more:
        await held.room()
        with pytest.raises(Exhausted) as refused:
            await more.room(0.01)
        assert refused.value.metadata == {"limit": "user_share"}
        with Body(bodies, BO) as others, Body(bodies, BACKEND) as backend:
            await others.room(0.01)
            with pytest.raises(Exhausted) as refused:
                await backend.room(0.01)
            assert refused.value.metadata == {"limit": "tenant_share"}
        waiting = asyncio.create_task(more.room(BOUND))
        await asyncio.sleep(0)
        held.holds(0)
        async with asyncio.timeout(BOUND):
            await waiting


def test_a_person_takes_its_share_of_the_slots_of_calls() -> None:
    slots = CallSlots(Shares(16, 0.5, 0.25))
    with slots.place(ANA), slots.place(ANA):
        with pytest.raises(Exhausted) as refused, slots.place(ANA):
            pass
        assert refused.value.metadata == {"limit": "user_share"}
        assert "HITHERTO_USER_SHARE" in refused.value.message
        with slots.place(BACKEND), slots.place(BO), slots.place(OTHER):
            pass
    with slots.place(ANA), slots.place(ANA):
        pass


def test_row_70_one_host_leaves_health_watches_to_others() -> None:
    slots = HealthSlots()
    held = []
    for number in range(HEALTH_CALLS_OF_A_HOST):
        held.append(slots.place(f"ipv4:10.0.0.1:{number}", watch=True))
        held[-1].__enter__()
    with pytest.raises(Exhausted), slots.place("ipv4:10.0.0.1:9999", watch=True):
        pass
    # Checks end by themselves, and count for no host. All that come over a socket have one name.
    for number in range(2 * HEALTH_CALLS):
        with slots.place(f"ipv4:10.0.0.2:{number}", watch=False):
            pass
    with ExitStack() as local:
        for _ in range(2 * HEALTH_CALLS_OF_A_CONNECTION):
            local.enter_context(slots.place("unix:", watch=True))
    for number in range(HEALTH_CALLS - HEALTH_CALLS_OF_A_HOST):
        held.append(slots.place(f"ipv4:10.0.0.2:{number}", watch=True))
        held[-1].__enter__()
    with pytest.raises(Exhausted), slots.place("ipv4:10.0.0.3:1", watch=True):
        pass
    for each in held:
        each.__exit__(None, None, None)
    with slots.place("ipv4:10.0.0.1:1", watch=True):
        pass


async def test_the_threads_are_never_all_of_one_tenant() -> None:
    """Work that goes on leaves a thread to others, also once nobody waits for it any more."""
    release = threading.Event()
    running = 0

    def wait() -> None:
        nonlocal running
        running += 1
        release.wait(BOUND)

    async def of(tenant: str, person: str | None) -> None:
        with acting_for(tenant):
            work_for(person)
            await in_thread(wait)

    try:
        going = [asyncio.create_task(of("a", None)) for _ in range(80)]
        async with asyncio.timeout(BOUND):
            while running < offloading._THREADS - 1:  # noqa: ASYNC110 - threads change it
                await asyncio.sleep(0.01)
        full = running
        for task in going[:40]:
            task.cancel()
        await asyncio.sleep(0.2)
        assert running == full, "a cancelled task's thread is not free"
        with acting_for("b"):
            async with asyncio.timeout(BOUND):
                assert await in_thread(lambda: "served") == "served"
    finally:
        release.set()
    await asyncio.gather(*going, return_exceptions=True)
    assert running <= full + 40
