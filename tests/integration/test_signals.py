"""The session of a process that listens for what changed in the database."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from hitherto_shared.database.signals import Signals


async def test_a_stop_while_it_begins_to_listen_closes_the_session(
    superuser_conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals = Signals("told", superuser_conninfo, later="changes are told")
    stopped: asyncio.Future[asyncio.Task[None]] = asyncio.get_running_loop().create_future()
    opened: list[psycopg.AsyncConnection] = []
    connect = psycopg.AsyncConnection.connect

    async def stopped_at_once(*given: Any, **named: Any) -> psycopg.AsyncConnection:
        opened.append(await connect(*given, **named))
        # The stop runs while LISTEN waits for its answer.
        stopped.set_result(asyncio.create_task(signals.stop()))
        return opened[0]

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", stopped_at_once)
    await signals.start()
    async with asyncio.timeout(120):
        await (await stopped)
    [session] = opened
    assert session.closed
