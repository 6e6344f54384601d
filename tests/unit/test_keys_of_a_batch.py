"""The keys of the users of one batch are asked for side by side (H3)."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import cast

import pytest

from hitherto_extraction.user_key import with_keys
from hitherto_shared.encryption.at_hand import KeyNeeded, key_at_hand
from hitherto_shared.encryption.failures import KeyGone, KeyServiceUnavailable
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.models import Scope

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
