"""The listener of the tests' own servers closes what it accepted, however early it ends."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import warnings

import pytest

from tests.listening import Listener

CALLERS = 5


async def _ended_after(turns: int) -> None:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    callers = []
    async with Listener(serve) as listener:
        for _ in range(CALLERS):
            callers.append(socket.create_connection(("127.0.0.1", listener.port)))
        for _ in range(turns):
            await asyncio.sleep(0)
    for caller in callers:
        caller.close()


@pytest.mark.parametrize("turns", range(8))
def test_no_socket_outlives_a_listener(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    left: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: left.append(str(found.exc_value)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(_ended_after(turns))
        gc.collect()
    assert not left
