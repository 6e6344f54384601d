"""Kill -9 in the middle of EraseUser (H2, faults.md row 56)."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import psycopg
import pytest

from tests.e2e.canaries import naming
from tests.faults.processes import Processes, Service
from tests.scripted_model import ScriptedModel
from tests.waiting import eventually

USER = "kanari-person"
COUNT = 12


async def save(service: Service, content: str) -> None:
    await service.ask("MemoryService/SaveMemory", user_id=USER, content=content)


async def erase(service: Service) -> Any:
    return await service.ask("PrivacyService/EraseUser", user_id=USER)


async def test_row_56_killed_between_two_tables(
    shared: Processes, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """The fence outlives the process, and the receipt of the next call covers what it had done."""
    extraction = await shared.start("extraction")
    for n in range(COUNT):
        await save(extraction, f"canary:w{n} The user owns book number {n}.")
    with (
        psycopg.connect(superuser_conninfo) as reader,
        psycopg.connect(superuser_conninfo, autocommit=True) as looking,
    ):
        # Memories go after all that stands below them: the erase waits here, half done.
        reader.execute("SELECT 1 FROM memories WHERE user_id = %s FOR KEY SHARE", [USER])
        going = asyncio.ensure_future(erase(extraction))
        await eventually(
            lambda: looking.execute(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND query LIKE '%DELETE FROM \"memories\"%'"
            ).fetchone(),
            "the erase to reach the memories",
        )
        extraction.kill()
        assert await asyncio.gather(going, return_exceptions=True)
        assert looking.execute("SELECT count(*) FROM memory_embeddings").fetchone() == (0,)
    assert naming(superuser_conninfo, USER)
    extraction = await shared.start("extraction")
    # The fence has outlived the process.
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await save(extraction, "canary:again")
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    counts = (await erase(extraction)).receipt.counts
    assert {name: counts[name] for name in ("memories", "memory_embeddings", "history")} == {
        "memories": COUNT,
        "memory_embeddings": COUNT,
        "history": COUNT,
    }
    assert counts["users"] == 1
    assert naming(superuser_conninfo, USER, "canary:") == {}
