"""A TCP relay that can keep answers back, delay them, cut them, or lead elsewhere."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self

from tests.listening import Listener


class Relay:
    """Forwards connections to a port of 127.0.0.1; as an async context manager.

    Attributes:
        target: The port that new connections go to.
        hold: While set, nothing of the server reaches the client.
        delay: Seconds that each piece takes, in either direction.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.hold = False
        self.delay = 0.0
        self._listener = Listener(self._serve)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.port}"

    def cut(self) -> None:
        """Cut every connection; new ones are taken."""
        self._listener.cut()

    async def __aenter__(self) -> Self:
        await self._listener.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._listener.__aexit__()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            return
        try:
            there = asyncio.create_task(self._pump(reader, behind[1], answers=False))
            back = asyncio.create_task(self._pump(behind[0], writer, answers=True))
            await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
            for task in (there, back):
                task.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
        finally:
            behind[1].transport.abort()

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                if self.delay:
                    await asyncio.sleep(self.delay)
                if not (answers and self.hold):
                    target.write(data)
                    await target.drain()
