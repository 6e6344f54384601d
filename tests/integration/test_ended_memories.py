"""Which memories another one has replaced, directly or through others (fault row 38)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any
from uuid import UUID

import pytest

from hitherto_extraction.storage import known_memories
from hitherto_shared.database.pool import Connection
from tests.integration.upkeep.past import ANA
from tests.integration.upkeep.stage import Stage, staged

_KEEP = """
INSERT INTO memory_versions (tenant_id, user_id, memory_id, version, type, content, detail,
    importance, confidence, origin, status, tags, keywords, context, metadata, valid_from,
    valid_to, superseded_by, known_from, known_to)
SELECT tenant_id, user_id, memory_id, version, type, content, detail, importance, confidence,
    origin, status, tags, keywords, context, metadata, valid_from, valid_to, superseded_by,
    updated_at, now()
FROM memories WHERE memory_id = %s
"""
_FORGET = """
UPDATE memories SET status = 'forgotten', superseded_by = NULL, version = version + 1
WHERE memory_id = %s
"""


@pytest.fixture
async def stage(conninfo: str, superuser_conninfo: str) -> AsyncIterator[Stage]:
    """A database of the test's own."""
    async with staged(conninfo, superuser_conninfo) as ready:
        yield ready


async def end(stage: Stage, memory_id: UUID, *, by: UUID) -> None:
    """Let one memory contradict another."""
    ended = "UPDATE memories SET status = 'contradicted', superseded_by = %s WHERE memory_id = %s"
    await stage.rows(ended, by, memory_id)


async def chain(stage: Stage, length: int, *, forgotten: Iterable[int] = ()) -> list[UUID]:
    """Memories, the current one first, each of which replaced the next one."""
    ids = [await stage.memory() for _ in range(length)]
    for at in range(1, length):
        await end(stage, ids[at], by=ids[at - 1])
    for at in forgotten:
        await stage.rows(_KEEP, ids[at])
        await stage.rows(_FORGET, ids[at])
    return ids


async def ended_by(stage: Stage, wanted: Sequence[UUID]) -> dict[UUID, dict[UUID, UUID]]:
    async with stage.write.connection() as connection, connection.transaction():
        return await known_memories.ended_by(connection.of(ANA), wanted)


async def test_every_memory_behind_is_found_with_the_one_that_it_names(stage: Stage) -> None:
    one, two = await chain(stage, 6, forgotten=(2, 3)), await chain(stage, 2)
    beside = await stage.memory()
    await end(stage, beside, by=one[1])
    lone = await stage.memory()
    expected = {one[1]: one[0], one[4]: one[3], one[5]: one[4], beside: one[1]}
    assert await ended_by(stage, [one[0], lone]) == {one[0]: expected}
    assert await ended_by(stage, [one[0], one[4], two[0]]) == {
        one[0]: {one[1]: one[0], one[4]: one[3], beside: one[1]},
        one[4]: {one[5]: one[4]},
        two[0]: {two[1]: two[0]},
    }


async def test_memories_that_replaced_each_other_are_found_once(stage: Stage) -> None:
    """An import may bring them."""
    ids = await chain(stage, 3)
    await end(stage, ids[0], by=ids[2])
    assert await ended_by(stage, ids[:1]) == {
        ids[0]: {ids[1]: ids[0], ids[2]: ids[1], ids[0]: ids[2]}
    }


async def test_a_long_row_of_forgotten_memories_is_not_followed_to_its_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_memories, "_LONGEST_CHAIN", 3)
    ids = await chain(stage, 9, forgotten=range(1, 8))
    asked = []
    fetch_rows = Connection.fetch_rows

    async def counted(self: Connection, *given: Any) -> Any:
        asked.append(given)
        return await fetch_rows(self, *given)

    monkeypatch.setattr(Connection, "fetch_rows", counted)
    assert await ended_by(stage, ids[:1]) == {}
    assert len(asked) == 1 + 3
