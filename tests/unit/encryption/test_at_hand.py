"""A key is at hand for its own user, in the work that opened it, and no longer (H3)."""

from __future__ import annotations

import asyncio
import os

from hitherto_shared.encryption.at_hand import KeyNeeded, key_at_hand, keys_at_hand
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.models import Scope

ANA, BEN = Scope("t", "ana"), Scope("t", "ben")


def key_of(scope: Scope) -> UserKey:
    return UserKey(os.urandom(32), scope.tenant_id, scope.user_id, "k")


def at_hand(scope: Scope) -> UserKey | None:
    try:
        return key_at_hand(scope)
    except KeyNeeded:
        return None


def test_h3_only_its_own_user_has_it() -> None:
    key = key_of(ANA)
    with keys_at_hand(key):
        assert key_at_hand(ANA) is key
        assert at_hand(BEN) is None
        assert at_hand(Scope("other", "ana")) is None
    assert at_hand(ANA) is None


def test_h3_a_block_within_has_its_own_keys_only() -> None:
    key, another = key_of(ANA), key_of(BEN)
    with keys_at_hand(key):
        with keys_at_hand(another):
            assert (at_hand(ANA), at_hand(BEN)) == (None, another)
        with keys_at_hand(None):
            assert at_hand(ANA) is None
        assert at_hand(ANA) is key


async def test_h3_it_reaches_threads_and_tasks_of_the_work_and_no_other_work() -> None:
    opened, looked = asyncio.Event(), asyncio.Event()

    async def bystander() -> UserKey | None:
        await opened.wait()
        found = at_hand(ANA)
        looked.set()
        return found

    beside = asyncio.create_task(bystander())
    key = key_of(ANA)
    with keys_at_hand(key):
        opened.set()
        await looked.wait()
        assert await asyncio.to_thread(at_hand, ANA) is key
        assert await asyncio.create_task(asyncio.to_thread(at_hand, ANA)) is key
    assert await beside is None
