"""The listener of the tests' own servers closes what it accepted, however early it ends."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import warnings
from collections.abc import Iterator

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


@pytest.fixture
def new_objects_alone() -> Iterator[None]:
    """From now on, the youngest generation holds what the test makes and nothing older.

    A full collection would look at what thousands of tests before have left.
    """
    gc.disable()
    gc.collect(0)
    yield
    gc.enable()


@pytest.mark.usefixtures("new_objects_alone")
@pytest.mark.parametrize("turns", range(8))
def test_no_socket_outlives_a_listener(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: left.append(str(found.exc_value)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(_ended_after(turns))
        gc.collect(0)
    assert not left
