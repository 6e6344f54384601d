"""What is entered once and left when others need the room, or at the end."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

Held = TypeVar("Held")


class Lasting(Generic[Held]):
    """Asynchronous contexts by key, of which the last few that were asked for stay entered.

    Args:
        most: How many stay entered.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._entered: dict[Hashable, tuple[AbstractAsyncContextManager[Held], Held]] = {}

    async def get(
        self, key: Hashable, make: Callable[[], AbstractAsyncContextManager[Held]]
    ) -> Held:
        """What the context of this key gave; it is made and entered unless it stays entered."""
        found = self._entered.pop(key, None)
        if found is None:
            while len(self._entered) >= self._most:
                await self._leave(next(iter(self._entered)))
            context = make()
            found = context, await context.__aenter__()
        self._entered[key] = found
        return found[1]

    async def leave(self) -> None:
        while self._entered:
            await self._leave(next(iter(self._entered)))

    async def _leave(self, key: Hashable) -> None:
        context, _ = self._entered.pop(key)
        await context.__aexit__(None, None, None)
