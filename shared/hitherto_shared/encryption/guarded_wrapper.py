"""Calls a key wrapper, which may be somebody's own: whatever goes wrong in it is an outage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from hitherto_shared.encryption.failures import KeyServiceUnavailable
from hitherto_shared.encryption.wrapping import KeyWrapper, NotUnwrapped

WRAPPER_SECONDS = 10.0
"""Time limit of a key-management service for one key, however many requests it takes."""
SERVICE = "the key-management service"


class GuardedWrapper:
    """A key wrapper whose errors, silence and unusable answers are outages."""

    def __init__(self, wrapper: KeyWrapper, seconds: float = WRAPPER_SECONDS) -> None:
        self.id = wrapper.id
        self._wrapper = wrapper
        self._seconds = seconds

    async def wrap(self, key: bytes, bound_to: Sequence[str]) -> bytes:
        """The wrapped key, which was unwrapped again: one that does not open is never stored.

        Raises:
            KeyServiceUnavailable: The wrapper failed, or what it wrapped does not open.
        """
        end = self._end()
        try:
            wrapped = await self._answer("wrap", lambda: self._wrapper.wrap(key, bound_to), end)
            opened = await self._answer(
                "unwrap", lambda: self._wrapper.unwrap(wrapped, bound_to), end
            )
        except NotUnwrapped as error:
            raise KeyServiceUnavailable(SERVICE) from error
        if opened != key:
            raise KeyServiceUnavailable(SERVICE) from ValueError("unwrap returned another key")
        return wrapped

    async def unwrap(self, wrapped: bytes, bound_to: Sequence[str]) -> bytes:
        """The key that was wrapped.

        Raises:
            NotUnwrapped: It will never open with this key.
            KeyServiceUnavailable: The wrapper failed.
        """
        return await self._answer(
            "unwrap", lambda: self._wrapper.unwrap(wrapped, bound_to), self._end()
        )

    def _end(self) -> float:
        """When the time for a key that is asked for now is up, by the clock of the event loop."""
        return asyncio.get_running_loop().time() + self._seconds

    async def _answer(self, method: str, ask: Callable[[], Awaitable[object]], end: float) -> bytes:
        """What the wrapper returns; the text of its error may quote its input."""
        task = asyncio.current_task()
        try:
            async with asyncio.timeout_at(end):
                # Called here, because a plain function fails before there is anything to await.
                answer = await ask()
        except NotUnwrapped:
            raise
        except asyncio.CancelledError as error:
            if task is None or task.cancelling():
                raise
            # Nobody cancelled this call: a client whose connection is closed cancels its own.
            raise KeyServiceUnavailable(SERVICE) from error
        except (Exception, SystemExit) as error:
            # SystemExit, as some clients raise for want of credentials, would end this process.
            raise KeyServiceUnavailable(SERVICE) from error
        if not isinstance(answer, bytes):
            wrong = TypeError(f"{method} returned {type(answer).__name__} instead of bytes")
            raise KeyServiceUnavailable(SERVICE) from wrong
        return answer
