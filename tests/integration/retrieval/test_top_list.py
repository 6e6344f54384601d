"""The top list (D1): importance, then recency of use, with places for what was just learnt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hitherto_retrieval.storage import memories
from hitherto_retrieval.storage.access import count_access
from hitherto_retrieval.storage.statement import ask
from hitherto_shared.database.pool import Database
from tests.integration.retrieval.questions import ANA, Reader
from tests.integration.retrieval.seed import TENANT, Fact, remember

NOW = datetime.now(UTC)


def aged(content: str, importance: float, days: float, **more: object) -> Fact:
    created_at = NOW - timedelta(days=days)
    return Fact(content, importance=importance, created_at=created_at, **more)  # type: ignore[arg-type]


async def top(reader: Database, *, limit: int, fresh: int) -> list[UUID]:
    listed = memories.top(ANA, limit=limit, fresh=fresh)
    await reader.run(lambda connection: ask(connection, listed), timeout=120)
    return [memory.memory_id for memory in listed.answer]


async def test_importance_then_recency_of_use(reader: Reader) -> None:
    ids = await remember(
        reader.superuser,
        "ana",
        [aged("light", 0.1, 10), aged("old", 0.9, 90), aged("older", 0.9, 99), aged("mid", 0.5, 9)],
    )
    light, old, older, mid = ids
    assert await top(reader, limit=10, fresh=5) == [old, older, mid, light]
    await reader.run(lambda c: count_access(c, TENANT, [("ana", older, 1)]), timeout=120)
    assert await top(reader, limit=10, fresh=5) == [older, old, mid, light]


async def test_the_newest_of_a_week_have_places_in_the_one_order(reader: Reader) -> None:
    heavy = [aged(f"heavy {n}", 0.9, 100 + n) for n in range(20)]
    news = [aged(f"news {n}", 0.1 + n / 100, 1 + n / 10) for n in range(8)]
    last_month = aged("last month", 0.2, 30)
    ids = await remember(reader.superuser, "ana", [*heavy, *news, last_month])
    found = await top(reader, limit=20, fresh=5)
    # The fifteen heaviest, then the five newest; among those the order is importance as well.
    assert found == [*ids[:15], *reversed(ids[20:25])]


async def test_what_was_just_learnt_is_never_pushed_out_by_other_news(reader: Reader) -> None:
    heavy = [aged(f"heavy {n}", 0.9, 100 + n) for n in range(9)]
    newest = aged("newest", 0.8, 0.01)  # tenth by importance, so in the list of ten by itself
    news = [aged(f"news {n}", 0.1, 1) for n in range(5)]
    ids = await remember(reader.superuser, "ana", [*heavy, newest, *news])
    found = await top(reader, limit=10, fresh=5)
    assert len(found) == 10
    assert ids[9] in found
    assert found[:5] == ids[:5]


async def test_places_nobody_is_new_for_go_to_the_important(reader: Reader) -> None:
    ids = await remember(reader.superuser, "ana", [aged(f"{n}", 0.5, 50 + n) for n in range(12)])
    assert await top(reader, limit=10, fresh=5) == ids[:10]
    assert await top(reader, limit=1, fresh=0) == ids[:1]


async def test_only_current_memories_are_told(reader: Reader) -> None:
    ids = await remember(
        reader.superuser,
        "ana",
        [
            aged("active", 0.1, 1),
            aged("achieved", 0.2, 1, status="achieved"),
            aged("contradicted", 0.9, 1, status="contradicted"),
            aged("quarantined", 0.9, 1, status="quarantined"),
            aged("expired", 0.9, 1, expires_at=NOW - timedelta(seconds=1)),
        ],
    )
    assert await top(reader, limit=10, fresh=5) == [ids[1], ids[0]]
    newest = memories.newest(ANA, limit=10)
    await reader.run(lambda connection: ask(connection, newest), timeout=120)
    assert {memory.memory_id for memory in newest.answer} == {ids[0], ids[1]}


async def test_among_many_of_one_importance_those_told_last_come_first(reader: Reader) -> None:
    """Whichever status they have and wherever the index puts them."""
    facts = [aged(f"{n}", 0.5, 50 + n) for n in range(12)]
    facts += [aged(f"reached {n}", 0.5, 80 + n, status="achieved") for n in range(3)]
    ids = await remember(reader.superuser, "ana", [*facts, aged("light", 0.4, 40)])
    oldest, reached = ids[11], ids[14]
    await reader.run(lambda c: count_access(c, TENANT, [("ana", oldest, 3)]), timeout=120)
    await reader.run(lambda c: count_access(c, TENANT, [("ana", reached, 2)]), timeout=120)
    assert await top(reader, limit=3, fresh=0) == [reached, oldest, ids[0]]
    listed = memories.top(ANA, limit=3, fresh=0)
    await reader.run(lambda connection: ask(connection, listed), timeout=120)
    assert [memory.access_count for memory in listed.answer] == [2, 3, 0]
    told = [memory.last_accessed_at for memory in listed.answer]
    assert told[0] is not None
    assert told[1] is not None
    assert told[0] > told[1]
    assert told[2] is None
    assert await top(reader, limit=0, fresh=0) == []
