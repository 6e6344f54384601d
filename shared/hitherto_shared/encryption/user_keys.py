"""Opens, creates and erases the data keys of users with the key-encryption key."""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from hitherto_shared.encryption.failures import (
    EncryptionNotConfigured,
    KeyGone,
    KeyNotErased,
    KeyNotOpened,
    KeyServiceUnavailable,
)
from hitherto_shared.encryption.guarded_wrapper import SERVICE, WRAPPER_SECONDS, GuardedWrapper
from hitherto_shared.encryption.key_store import BrokenRecord, InTheWay, KeyStore, Stamp, WrappedKey
from hitherto_shared.encryption.user_key import KEY_BYTES, UserKey
from hitherto_shared.encryption.wrapping import KeyWrapper, NotUnwrapped
from hitherto_shared.user_hash import user_hash

CACHED = 4_096
"""Maximum number of opened keys in a process; the least recently used one is dropped."""
FAILURE_SECONDS = 2.0
"""Time for which a failure to unwrap a key is remembered."""
_ROUNDS = 3
_CHANGED = "its file was changed, or belongs to another user"
_UNREAD: Stamp = (0, 0, 0)
"""The stamp of a new key, whose file was not read yet: it equals that of no file."""

Given = ParamSpec("Given")
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class _Held:
    stamp: Stamp
    key: UserKey


_Asked = tuple[str, WrappedKey]
"""The user and the wrapped key; a replacement of the file is unwrapped separately."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """Why a key was not unwrapped.

    Each caller gets an error of its own, because an error that many callers raise collects all
    their tracebacks.
    """

    kind: type[KeyNotOpened] | type[KeyServiceUnavailable]
    why: str
    cause: BaseException | None = None


class UserKeys:
    """Opens, creates and erases the data keys of users.

    An opened key is used for as long as its file is unchanged, which is checked at every use: a key
    that another process has erased is gone at once or, if the folder is on a network share, as soon
    as the share shows it (within 60 seconds with the usual settings).

    Concurrent requests for one key cause one call of the wrapper; a failed one is not repeated for
    a moment, so that an outage does not delay every call.

    Attributes:
        configured: Whether there is a key-encryption key. Without one, keys can only be erased.
    """

    def __init__(
        self,
        wrapper: KeyWrapper | None,
        store: KeyStore,
        hash_key: bytes,
        *,
        wrapper_seconds: float = WRAPPER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Configure it.

        Without `wrapper`, no key-encryption key is configured. `wrapper_seconds` limits its time
        for one key.
        """
        self.configured = wrapper is not None
        self._wrapper = None if wrapper is None else GuardedWrapper(wrapper, wrapper_seconds)
        self._store = store
        self._hash_key = hash_key
        self._clock = clock
        self._open: OrderedDict[str, _Held] = OrderedDict()
        self._pending: dict[_Asked, asyncio.Task[UserKey | _Failed]] = {}
        self._failed: OrderedDict[_Asked, tuple[float, _Failed]] = OrderedDict()

    async def open(self, tenant_id: str, user_id: str) -> UserKey:
        """The user's key.

        Raises:
            EncryptionNotConfigured: There is no key-encryption key.
            KeyGone: The user has no key.
            KeyNotOpened: Another key-encryption key is needed, or the file was changed.
            KeyServiceUnavailable: The key-management service or the folder is unavailable.
        """
        wrapper = self._required()
        hashed = self._hash_of(tenant_id, user_id)
        held = self._open.get(hashed)
        if held is not None and await _on_disk(self._store.stamp, hashed) == held.stamp:
            self._keep(hashed, held)
            return held.key
        opened = await self._opened(wrapper, hashed, tenant_id, user_id)
        if opened is None:
            raise KeyGone
        return opened

    async def make(self, tenant_id: str, user_id: str) -> UserKey:
        """The user's key, created if there is none. On return it is on disk.

        Raises:
            EncryptionNotConfigured: There is no key-encryption key.
            KeyNotOpened: Another key-encryption key is needed, or the file was changed.
            KeyServiceUnavailable: The key-management service or the folder is unavailable.
            KeyGone: Other processes erased it as often as it was created.
        """
        wrapper = self._required()
        hashed = self._hash_of(tenant_id, user_id)
        for _ in range(_ROUNDS):
            opened = await self._opened(wrapper, hashed, tenant_id, user_id)
            if opened is not None:
                return opened
            key, key_id = os.urandom(KEY_BYTES), os.urandom(8).hex()
            wrapped = await wrapper.wrap(key, (tenant_id, hashed, key_id))
            # Read again in the next round: another process may have been first.
            record = WrappedKey(tenant_id, key_id, wrapper.id, wrapped)
            if await _on_disk(self._store.create, hashed, record):
                self._keep(hashed, _Held(_UNREAD, UserKey(key, tenant_id, user_id, key_id)))
        opened = await self._opened(wrapper, hashed, tenant_id, user_id)
        if opened is None:
            raise KeyGone
        return opened

    async def stands(self, key: UserKey) -> bool:
        """Whether this is still the user's key, checked now.

        Checked under the user's lock, the answer holds until the lock is released: keys are erased
        under it.
        """
        hashed = self._hash_of(key.tenant_id, key.user_id)
        try:
            found = await _on_disk(self._store.read, hashed)
        except BrokenRecord:
            return False
        return found is not None and found[1].key_id == key.key_id

    async def erase(self, tenant_id: str, user_id: str) -> bool:
        """Erase the user's key; returns whether there was one. What it sealed is lost for good.

        It needs no key-encryption key.

        Raises:
            KeyNotErased: A folder with contents stands in place of its file.
            KeyServiceUnavailable: The folder of keys cannot be changed.
        """
        hashed = self._hash_of(tenant_id, user_id)
        self._open.pop(hashed, None)
        try:
            return await _on_disk(self._store.erase, hashed)
        except InTheWay as error:
            raise KeyNotErased(str(error)) from None

    async def _opened(
        self, wrapper: GuardedWrapper, hashed: str, tenant_id: str, user_id: str
    ) -> UserKey | None:
        """The key in the user's file now; None if there is none."""
        try:
            found = await _on_disk(self._store.read, hashed)
        except BrokenRecord:
            self._open.pop(hashed, None)
            raise KeyNotOpened("its file is damaged") from None
        held = self._open.get(hashed)
        if found is None:
            self._open.pop(hashed, None)
            return None
        stamp, record = found
        if held is not None and held.key.key_id == record.key_id:
            # A rewrapped key is the same key.
            self._keep(hashed, _Held(stamp, held.key))
            return held.key
        self._open.pop(hashed, None)
        if record.wrapper_id != wrapper.id:
            raise KeyNotOpened("another key-encryption key wrapped it")
        outcome = await self._unwrapped(wrapper, (hashed, record), stamp, tenant_id, user_id)
        if isinstance(outcome, UserKey):
            return outcome
        raise outcome.kind(outcome.why) from outcome.cause

    async def _unwrapped(
        self, wrapper: GuardedWrapper, asked: _Asked, stamp: Stamp, tenant_id: str, user_id: str
    ) -> UserKey | _Failed:
        """See `_unwrap`; runs once for all concurrent callers."""
        until, failed = self._failed.get(asked, (0.0, None))
        if failed is not None and self._clock() < until:
            return failed
        pending = self._pending.get(asked)
        if pending is None:
            pending = asyncio.create_task(self._unwrap(wrapper, asked, stamp, tenant_id, user_id))
            self._pending[asked] = pending
            pending.add_done_callback(lambda _: self._pending.pop(asked, None))
        # A caller that stops waiting leaves it to the others, and to later ones.
        return await asyncio.shield(pending)

    async def _unwrap(
        self, wrapper: GuardedWrapper, asked: _Asked, stamp: Stamp, tenant_id: str, user_id: str
    ) -> UserKey | _Failed:
        """The key, which is cached, or why it did not open, which is remembered for a moment."""
        hashed, record = asked
        bound_to = (tenant_id, hashed, record.key_id)
        try:
            key = await wrapper.unwrap(record.wrapped, bound_to)
        except NotUnwrapped:
            return self._fail(asked, _Failed(KeyNotOpened, _CHANGED))
        except KeyServiceUnavailable as error:
            return self._fail(asked, _Failed(KeyServiceUnavailable, SERVICE, error.__cause__))
        if len(key) != KEY_BYTES:
            return self._fail(asked, _Failed(KeyNotOpened, "it has a wrong length"))
        self._failed.pop(asked, None)
        opened = UserKey(key, tenant_id, user_id, record.key_id)
        self._keep(hashed, _Held(stamp, opened))
        return opened

    def _fail(self, asked: _Asked, failed: _Failed) -> _Failed:
        """Remember a failure for a moment, without its cause, which references much memory."""
        self._failed[asked] = self._clock() + FAILURE_SECONDS, replace(failed, cause=None)
        self._failed.move_to_end(asked)
        while len(self._failed) > CACHED:
            self._failed.popitem(last=False)
        return failed

    def _keep(self, hashed: str, held: _Held) -> None:
        self._open[hashed] = held
        self._open.move_to_end(hashed)
        while len(self._open) > CACHED:
            self._open.popitem(last=False)

    def _required(self) -> GuardedWrapper:
        if self._wrapper is None:
            raise EncryptionNotConfigured
        return self._wrapper

    def _hash_of(self, tenant_id: str, user_id: str) -> str:
        return user_hash(self._hash_key, tenant_id, user_id)


async def _on_disk(work: Callable[Given, Done], *args: Given.args, **kwargs: Given.kwargs) -> Done:
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except OSError as error:
        raise KeyServiceUnavailable("the folder of user keys") from error
