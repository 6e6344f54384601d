"""Keys of several users: asked for side by side, each opens its own user's profile (H3)."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from hitherto_extraction.user_key import with_keys
from hitherto_retrieval.opening import whole_of_many
from hitherto_shared.encryption.at_hand import KeyNeeded, key_at_hand, keys_at_hand
from hitherto_shared.encryption.failures import KeyGone, KeyServiceUnavailable
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.rows import PROFILE
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.models import Profile, Scope
from tests.unit.encryption.wrappers import CloudWrapper

USERS = [f"user{n}" for n in range(8)]
HASH_KEY = os.urandom(32)


def keys(folder: Path, cloud: CloudWrapper) -> UserKeys:
    return UserKeys(cloud, KeyStore(folder), HASH_KEY, wrapper_seconds=60)


async def profiles(made: UserKeys) -> list[tuple[Scope, Profile]]:
    found = []
    for user in USERS:
        key = await made.make("t", user)
        sealed = key.seal({"summary": f"about {user}"}, PROFILE.place(0))
        found.append((Scope("t", user), Profile(user, sealed=sealed)))
    return found


def deadline(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_h3_the_service_is_asked_for_all_at_once(tmp_path: Path) -> None:
    """One after the other each would have half of what the one before it left."""
    cloud = CloudWrapper()
    items = await profiles(keys(tmp_path, cloud))
    clear = (Scope("t", "zoe"), Profile("zoe", summary="clear"))
    cloud.waited_for = len(USERS)
    opened = await whole_of_many(keys(tmp_path, cloud), [clear, *items], deadline=deadline(60))
    assert [each.summary for each in opened] == ["clear", *(f"about {user}" for user in USERS)]


@pytest.mark.parametrize("trouble", ["out_of_reach", "hangs"])
async def test_h3_a_service_that_is_away_fails_rather_than_leaving_out(
    tmp_path: Path, trouble: str
) -> None:
    cloud = CloudWrapper()
    items = await profiles(keys(tmp_path, cloud))
    setattr(cloud, trouble, True)
    held = keys(tmp_path, cloud)
    with pytest.raises(KeyServiceUnavailable):
        await whole_of_many(held, items, deadline=deadline(0.2))


async def test_h3_a_key_that_will_never_open_leaves_its_profile_out(tmp_path: Path) -> None:
    cloud = CloudWrapper()
    made = keys(tmp_path, cloud)
    items = await profiles(made)
    await made.erase("t", USERS[3])
    opened = await whole_of_many(made, items, deadline=deadline(60))
    assert [each.user_id for each in opened] == [*USERS[:3], *USERS[4:]]


# A key is at hand for its own user, in the work that opened it, and no longer (H3).


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


def test_h3_no_key_stays_at_hand_after_an_error() -> None:
    with pytest.raises(KeyNeeded), keys_at_hand(key_of(ANA)):
        key_at_hand(BEN)
    with pytest.raises(KeyNeeded):
        key_at_hand(ANA)


# The keys of the users of one batch are asked for side by side (H3).


SCOPES = [Scope("t", f"user-{number}") for number in range(100)]


class Service:
    """A key service that answers when so many wait for it.

    Args:
        at_once: How many must wait before any is answered.
        outage: Whether it then says that it is away.
    """

    def __init__(self, at_once: int, *, outage: bool = False) -> None:
        self.at_once = at_once
        self.outage = outage
        self.asked = 0
        self.waiting = 0
        self.most = 0
        self.enough = asyncio.Event()

    async def open(self, tenant_id: str, user_id: str) -> UserKey:
        self.asked += 1
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if self.waiting >= self.at_once:
            self.enough.set()
        await self.enough.wait()
        self.waiting -= 1
        if self.outage:
            raise KeyServiceUnavailable("the key service")
        if user_id.endswith("7"):
            return UserKey(os.urandom(32), "t", user_id, "k")
        raise KeyGone


async def needing_the_last() -> list[str]:
    key_at_hand(SCOPES[97])
    found = []
    for scope in SCOPES:
        with suppress(KeyNeeded):
            found.append(key_at_hand(scope).user_id)
    return sorted(found)


async def test_many_are_asked_for_side_by_side_and_few_have_one() -> None:
    service = Service(at_once=32)
    async with asyncio.timeout(30):
        found = await with_keys(cast(UserKeys, service), SCOPES, needing_the_last)
    assert found == sorted(scope.user_id for scope in SCOPES if scope.user_id.endswith("7"))
    assert (service.asked, service.most) == (len(SCOPES), 32)


async def test_an_outage_is_told_once_and_not_waited_for_by_everybody() -> None:
    service = Service(at_once=32, outage=True)
    async with asyncio.timeout(30):
        with pytest.raises(KeyServiceUnavailable):
            await with_keys(cast(UserKeys, service), SCOPES, needing_the_last)
    assert service.asked == 32


async def test_a_key_that_is_still_needed_and_gone_is_said_to_be_gone() -> None:
    async def never() -> None:
        raise KeyNeeded

    with pytest.raises(KeyGone):
        await with_keys(cast(UserKeys, Service(at_once=1)), SCOPES[:3], never)
