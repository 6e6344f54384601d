"""Key wrappers of somebody's own, as HITHERTO_KEY_WRAPPER names them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from hitherto_shared.encryption.wrapping import LocalWrapper, NotUnwrapped


class CloudWrapper:
    """Stands for a key-management service; counts how often it is asked.

    Where `waited_for` is set, nobody gets an answer before as many wait for one.
    """

    id = "cloud:key/7"

    def __init__(self) -> None:
        self._inner = LocalWrapper(b"c" * 32)
        self.asked = 0
        self.out_of_reach = False
        self.hangs = False
        self.refuses = False
        self.reached = asyncio.Event()
        self.waited_for = 0
        self._waiting = 0
        self._enough = asyncio.Event()

    async def wrap(self, key: bytes, bound_to: Sequence[str]) -> bytes:
        await self._answer()
        return await self._inner.wrap(key, bound_to)

    async def unwrap(self, wrapped: bytes, bound_to: Sequence[str]) -> bytes:
        await self._answer()
        return await self._inner.unwrap(wrapped, bound_to)

    def let_go(self) -> None:
        self._enough.set()

    async def _answer(self) -> None:
        self.asked += 1
        self.reached.set()
        if self.out_of_reach:
            raise ConnectionError("the secret password is hunter2")
        if self.refuses:
            raise NotUnwrapped
        if self.waited_for:
            self._waiting += 1
            if self._waiting >= self.waited_for:
                self._enough.set()
            await self._enough.wait()
        if self.hangs:
            await asyncio.Event().wait()


def cloud() -> CloudWrapper:
    return CloudWrapper()


def out_of_reach() -> CloudWrapper:
    made = CloudWrapper()
    made.out_of_reach = True
    return made


def nothing() -> object:
    return object()


def fails() -> object:
    raise RuntimeError("the secret password is hunter2")


def gives_up() -> object:
    raise SystemExit("no credentials for hunter2")


class MisbehavingWrapper(CloudWrapper):
    """A service whose answers are of no use while `answer` is set.

    What it is set to is returned by the method `method`, or raised if it is an error.
    """

    def __init__(self, method: str, answer: object) -> None:
        super().__init__()
        self.method = method
        self.answer: object = answer

    async def wrap(self, key: bytes, bound_to: Sequence[str]) -> bytes:
        made = await super().wrap(key, bound_to)
        return self._instead("wrap", made)

    async def unwrap(self, wrapped: bytes, bound_to: Sequence[str]) -> bytes:
        if self.method == "unwrap" and self.answer is not None:
            return self._instead("unwrap", b"")
        return await super().unwrap(wrapped, bound_to)

    def _instead(self, method: str, made: bytes) -> bytes:
        if self.method != method or self.answer is None:
            return made
        if isinstance(self.answer, BaseException):
            raise self.answer
        return cast(bytes, self.answer)


class Blocking:
    id = "blocking"

    def wrap(self, key: bytes, bound_to: Sequence[str]) -> bytes:
        return key

    def unwrap(self, wrapped: bytes, bound_to: Sequence[str]) -> bytes:
        return wrapped


class Nameless(CloudWrapper):
    id = ""
