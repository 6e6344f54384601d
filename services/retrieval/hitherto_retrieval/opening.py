"""Opens sealed rows of one user within a call: fetches the key once, and only if needed.

Rows carry their sealed values (`Memory.sealed` and the like). Statements and connections are
finished before anything is opened, except in a search, which must compare what it opens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

from hitherto_shared.encryption.failures import (
    DecryptionFailed,
    EncryptionNotConfigured,
    KeyServiceUnavailable,
    KeyUnavailable,
    SealBroken,
)
from hitherto_shared.encryption.rows import MEMORY, MESSAGE, PROFILE, SUMMARY, Place, SealedRow
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.models import Memory, Message, Profile, Scope, Summary

logger = logging.getLogger("hitherto.sealed")

_AT_ONCE = 32
"""Number of users whose keys are requested concurrently."""

_KINDS: Mapping[type, SealedRow] = {
    Memory: MEMORY,
    Message: MESSAGE,
    Summary: SUMMARY,
    Profile: PROFILE,
}

Failure = KeyUnavailable | KeyServiceUnavailable
Anything = TypeVar("Anything")


class Opener:
    """Opens the sealed values of one user.

    Items in clear pass through it unchanged, and no key is requested for them.

    Attributes:
        failure: Why the key is unavailable, once it was requested.
        asked: Whether the key was requested.
        opened: Number of opened items.
        missed: Places of values that stayed closed for lack of the key.
        broken: Places of values that the key did not open.
        compared: Number of sealed items that a search compared.
        capped: Whether there were more than it compares.
    """

    def __init__(self, keys: UserKeys, scope: Scope, *, deadline: float) -> None:
        """Fetches nothing yet.

        Args:
            keys: Provides the user's key.
            scope: The user.
            deadline: The loop's time by which the call ends; the key gets half of what is left.
        """
        self._keys = keys
        self._scope = scope
        self._deadline = deadline
        self._key: UserKey | None = None
        self.failure: Failure | None = None
        self.asked = False
        self.opened = 0
        self.missed: set[Place] = set()
        self.broken: set[Place] = set()
        self.compared = 0
        self.capped = False

    @property
    def degraded(self) -> bool:
        """Whether a key that should open values did not."""
        return self.failure is not None and not isinstance(self.failure, EncryptionNotConfigured)

    async def fetch(self) -> UserKey | None:
        """The user's key, or None with the reason in `failure`; requested once."""
        if self.asked:
            return self._key
        left = self._deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(max(0.0, left / 2)):
                self._key = await self._keys.open(self._scope.tenant_id, self._scope.user_id)
        except (KeyUnavailable, KeyServiceUnavailable) as error:
            self.failure = error
        except TimeoutError:
            self.failure = KeyServiceUnavailable("the key-management service")
        self.asked = True
        return self._key

    def values(self, sealed: bytes, place: Place) -> dict[str, Any] | None:
        """The sealed values of a place; None if it does not open. Requires `fetch` first."""
        if self._key is None:
            self.missed.add(place)
            return None
        try:
            return self._key.open(sealed, place)
        except DecryptionFailed:
            self._note(place)
            return None

    def bytes_at(self, sealed: bytes, place: Place) -> bytes | None:
        """The same for bytes, such as a vector; a value that does not open counts as missing."""
        if self._key is None:
            return None
        try:
            return self._key.open_bytes(sealed, place)
        except DecryptionFailed:
            self._note(place)
            return None

    async def whole(self, items: Iterable[Anything]) -> list[Anything]:
        """The items with their sealed values opened; items that do not open are left out."""
        listed = list(items)
        if not any_sealed(listed):
            return listed
        await self.fetch()
        found = (self._whole(item) for item in listed)
        return [item for item in found if item is not None]

    async def one(self, item: Anything) -> Anything:
        """One item, opened.

        Raises:
            KeyUnavailable: Its key is unavailable or does not open it.
            KeyServiceUnavailable: Its key is temporarily unavailable.
        """
        found = await self.whole([item])
        if found:
            return found[0]
        raise self.failure or SealBroken

    def _whole(self, item: Anything) -> Anything | None:
        sealed = getattr(item, "sealed", None)
        if sealed is None:
            return item
        kind = _KINDS[type(item)]
        values = self.values(sealed, kind.place(*(getattr(item, name) for name in kind.ids)))
        if values is None:
            return None
        self.opened += 1
        return _with(item, values)

    def _note(self, place: Place) -> None:
        if place not in self.broken:
            self.broken.add(place)
            logger.error(
                "cannot open a sealed value: it was changed, or belongs to another row, user "
                "or key",
                extra={"sealed": place[0], "row": list(place[1:])},
            )


async def whole_of_many(
    keys: UserKeys, items: Sequence[tuple[Scope, Anything]], *, deadline: float
) -> list[Anything]:
    """Items of several users in order, each opened with its user's key, many at once.

    Items that no key will open without an administrator's action are left out.

    Args:
        keys: Provides keys.
        items: Each with its user.
        deadline: The loop's time by which the call ends.

    Raises:
        KeyServiceUnavailable: A key is temporarily unavailable: an item left out now would appear
            later.
    """
    if not any_sealed([item for _, item in items]):
        return [item for _, item in items]
    turns = asyncio.Semaphore(_AT_ONCE)
    outages: list[KeyServiceUnavailable] = []

    async def open_one(scope: Scope, item: Anything) -> list[Anything]:
        if not is_sealed(item):
            return [item]
        async with turns:
            if outages:
                return []
            opener = Opener(keys, scope, deadline=deadline)
            found = await opener.whole([item])
            if isinstance(opener.failure, KeyServiceUnavailable):
                outages.append(opener.failure)
            return found

    opened = await asyncio.gather(*(open_one(scope, item) for scope, item in items))
    if outages:
        raise outages[0]
    return [item for found in opened for item in found]


def is_sealed(item: object) -> bool:
    """Whether an item must be opened before it can be shown."""
    return getattr(item, "sealed", None) is not None


def any_sealed(items: Sequence[object]) -> bool:
    """Whether one of the items must be opened."""
    return any(getattr(item, "sealed", None) is not None for item in items)


def _with(item: Anything, values: Mapping[str, Any]) -> Anything:
    """The item with its opened values; values without a field are not used by readers."""
    known = {field.name for field in fields(cast(Any, item))} - {"sealed"}
    true = {name: value for name, value in values.items() if name in known}
    return cast(Anything, replace(cast(Any, item), sealed=None, **true))
