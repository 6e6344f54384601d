"""Keys of several users: each opens its own user's profile (ListProfiles), and no more (H3)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from hitherto_retrieval.opening import whole_of_many
from hitherto_shared.encryption.at_hand import KeyNeeded, key_at_hand, keys_at_hand
from hitherto_shared.encryption.failures import KeyServiceUnavailable
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
