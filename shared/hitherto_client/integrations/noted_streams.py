"""Streams of other packages that note what passes and say when they end, however they end.

A stream ends when it is read to its end, fails, is closed (by itself, or through its response, as
the package's own helpers do), or is dropped by everybody.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any


class _Noting:
    """What both kinds of streams share: events are noted, and the end is told once."""

    def __init__(
        self,
        stream: Any,
        *,
        note: Callable[[Any], None],
        ended: Callable[[], Any],
        dropped: Callable[[], None],
    ) -> None:
        """Take the place of `stream`.

        Args:
            stream: The stream of the package.
            note: Called with each event; must not raise.
            ended: Called once, at the end; must not raise. An asynchronous stream awaits it.
            dropped: Called instead if nobody holds the stream any more; must not block.
        """
        self._stream = stream
        self._note = note
        self._ended = ended
        self._dropped = dropped
        self._open = True
        self._reading = False

    def _closed_with(self) -> Any:
        """What others may close in place of the stream."""
        return self._stream.response

    def __getattr__(self, name: str) -> Any:
        if name == "_stream":
            raise AttributeError(name)
        return getattr(self._stream, name)

    def _drop(self) -> None:
        if self.__dict__.get("_open"):
            self._open = False
            self._dropped()

    def __del__(self) -> None:
        self._drop()


class NotedStream(_Noting):
    """Notes the events of a stream; in every other respect a class with it is the package's own."""

    def __init__(self, stream: Any, **told: Callable[..., Any]) -> None:
        super().__init__(stream, **told)
        held = self._closed_with()
        close, this = held.close, weakref.ref(self)

        def closing() -> None:
            close()
            found = this()
            if found is not None and not found._reading:
                found._end()

        held.close = closing

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._reading = True
        try:
            event = next(self._stream)
        except BaseException:
            self._end()
            raise
        finally:
            self._reading = False
        self._note(event)
        return event

    def close(self) -> None:
        """Close the response; what was received of the reply is kept."""
        self._stream.close()
        self._end()

    def _end(self) -> None:
        if self._open:
            self._open = False
            self._ended()


class AsyncNotedStream(_Noting):
    """See NotedStream. A cancelled reader does not wait for what is kept."""

    def __init__(self, stream: Any, **told: Callable[..., Any]) -> None:
        super().__init__(stream, **told)
        held = self._closed_with()
        close, this = held.aclose, weakref.ref(self)

        async def closing() -> None:
            await close()
            found = this()
            if found is not None and not found._reading:
                await found._end()

        held.aclose = closing

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        self._reading = True
        try:
            event = await anext(self._stream)
        except asyncio.CancelledError:
            self._drop()
            raise
        except BaseException:
            await self._end()
            raise
        finally:
            self._reading = False
        self._note(event)
        return event

    async def close(self) -> None:
        """Close the response; what was received of the reply is kept."""
        await self._stream.close()
        await self._end()

    async def _end(self) -> None:
        if self._open:
            self._open = False
            await self._ended()
