"""What upkeep looks at a second time: a slot that somebody has passed, a memory told in between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from hitherto_extraction.storage import removal
from hitherto_extraction.storage import schedules as storage
from hitherto_shared.database.user_rows import UserRows
from tests.integration.upkeep.stage import Stage

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


async def test_row_40_an_older_slot_is_not_run_after_a_newer_one(stage: Stage) -> None:
    """A replica whose clock or list is behind takes nothing that another has passed."""
    async with stage.maintenance.connection() as connection:
        assert await storage.take(connection, "decay", NOON)
        for behind in (timedelta(0), timedelta(minutes=1), timedelta(days=1)):
            assert not await storage.take(connection, "decay", NOON - behind), behind
        assert await storage.take(connection, "consolidation", NOON - timedelta(days=1))
        assert await storage.take(connection, "decay", NOON + timedelta(minutes=1))


async def test_row_42_a_run_of_retention_looks_again_under_the_lock(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look and the lock a memory is told: the run leaves it alone."""
    told = await stage.memory("Told.")
    untold = await stage.memory("Untold.")
    lock = removal.lock_memories

    async def late(user: UserRows, found: Sequence[UUID]) -> list[UUID]:
        assert {told, untold} & set(found)
        await stage.told(told)
        return list(await lock(user, found))

    monkeypatch.setattr(removal, "lock_memories", late)
    assert (await stage.retention(30))["memories"] == 1
    assert await stage.rows("SELECT memory_id FROM memories") == [(told,)]


async def test_row_42_a_run_of_retention_leaves_alone_what_is_being_told(stage: Stage) -> None:
    """The reader has not committed when the run looks again: it deletes what it holds, no more."""
    told = await stage.memory("Told.")
    await stage.memory("Untold.")
    async with stage.admin.transaction():
        await stage.told(told)
        assert (await stage.retention(30))["memories"] == 1
    assert (await stage.retention(30))["memories"] == 0
    assert await stage.rows("SELECT memory_id FROM memories") == [(told,)]
