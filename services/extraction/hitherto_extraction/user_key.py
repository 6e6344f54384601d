"""A user's data key, opened before the transaction that reads or writes sealed rows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import TypeVar

from hitherto_extraction.storage import users
from hitherto_shared.database.pool import Database
from hitherto_shared.encryption.at_hand import KeyNeeded, keys_at_hand
from hitherto_shared.encryption.failures import KeyGone
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.models import Scope

_SECONDS = 10.0
_AT_ONCE = 32
"""Number of users whose keys are requested concurrently."""

Done = TypeVar("Done")


async def key_of(database: Database, keys: UserKeys | None, scope: Scope) -> UserKey | None:
    """The key to open the user's sealed values and, with encryption on, to seal new ones.

    None for a user with encryption off and no key, or in an installation without keys: nothing of
    theirs is sealed. `database` tells whether the user has encryption on.

    Raises:
        KeyUnavailable: There is a key, or should be, and it does not open.
        KeyServiceUnavailable: A key-management service does not answer.
    """
    key = await standing_key(keys, scope)
    if key is not None or keys is None:
        return key
    state = await database.run(
        lambda connection: users.read_user(connection.of(scope)), timeout=_SECONDS, repeatable=True
    )
    if state is None or state.erased or not state.encrypts:
        return None
    return await keys.open(scope.tenant_id, scope.user_id)


async def standing_key(keys: UserKeys | None, scope: Scope) -> UserKey | None:
    """The user's key if there is one, whether or not the user has encryption on; see `key_of`.

    For work that reads the user's row anyway, and refuses to go on where a key is missing.
    """
    if keys is not None and keys.configured:
        with suppress(KeyGone):
            return await keys.open(scope.tenant_id, scope.user_id)
    return None


async def with_keys(
    keys: UserKeys | None, scopes: Collection[Scope], work: Callable[[], Awaitable[Done]]
) -> Done:
    """Run `work` without a key, and if it needs one, again with those of `scopes` at hand.

    Users without encryption thus pay nothing for it. The work has changed nothing when it raises
    `KeyNeeded`.

    Raises:
        KeyUnavailable: A key is needed that does not open.
        KeyServiceUnavailable: A key-management service does not answer.
    """
    try:
        return await work()
    except KeyNeeded:
        if keys is None:
            raise
    opened = await _opened(keys, scopes)
    try:
        with keys_at_hand(*opened):
            return await work()
    except KeyNeeded:
        raise (KeyNeeded() if len(opened) == len(scopes) else KeyGone()) from None


async def _opened(keys: UserKeys, scopes: Collection[Scope]) -> list[UserKey]:
    """The available keys: most users of a batch have encryption off and have none."""
    turns = asyncio.Semaphore(_AT_ONCE)
    opened: list[UserKey] = []
    failures: list[Exception] = []

    async def open_one(scope: Scope) -> None:
        async with turns:
            # After the first failure, nothing waits for the time limits of the other keys as well.
            if failures:
                return
            try:
                opened.append(await keys.open(scope.tenant_id, scope.user_id))
            except KeyGone:
                pass
            except Exception as failure:
                failures.append(failure)

    await asyncio.gather(*(open_one(scope) for scope in scopes))
    if failures:
        raise failures[0]
    return opened
