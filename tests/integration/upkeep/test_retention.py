"""Retention of memories (requirement C3): who keeps what, and that nothing is left of what goes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from hitherto_extraction.queue.claims import ClaimLost
from hitherto_extraction.storage import removal, users
from hitherto_extraction.storage.retention import RetentionDays
from hitherto_extraction.upkeep.retention import Retention
from hitherto_shared.database.user_rows import UserRows
from tests.integration.upkeep.past import (
    ANA,
    CANARY,
    NOTHING,
    conversation,
    index,
    message,
    source,
    tables_with_the_canary,
)
from tests.integration.upkeep.stage import Stage

EDGES: list[tuple[int, int | None, dict[str, Any], bool]] = [
    (30, None, {}, True),
    (0, None, {}, False),
    (0, 30, {}, True),
    (30, 0, {}, False),
    (30, 60, {}, False),
    (60, 30, {}, True),
    (30, None, {"age": "29 days 23:59"}, False),
    (30, None, {"age": "99 days", "accessed": "29 days"}, False),
    (30, None, {"age": "99 days", "accessed": "31 days"}, True),
    (30, None, {"importance": 1.0, "type": "decision"}, True),
    (30, None, {"status": "forgotten"}, True),
    (30, None, {"status": "archived"}, True),
    # Upkeep that changed it yesterday did not use it.
    (30, None, {"status": "archived", "age": "99 days", "changed": "1 day"}, True),
]


async def test_which_memories_go(stage: Stage) -> None:
    """C3: off unless set, a user's own setting first, untouched for N days."""
    for number, (days, own, given, goes) in enumerate(EDGES):
        case, user = (days, own, given), f"u{number}"
        await stage.memory(user=user, **given)
        await stage.user(user, retention_days=own)
        planned = await stage.planned_retention(days, user=user)
        counts = await stage.retention(days, user=user)
        assert counts == {**NOTHING, "memories": int(goes)}, case
        assert planned["memories"] == int(goes), case
        assert len(await stage.statuses(user)) == int(not goes), case


@pytest.mark.parametrize("status", ["forgotten", "quarantined"])
async def test_what_keeps_words_from_being_told_stays_as_long_as_they_do(
    stage: Stage, status: str
) -> None:
    """C5: without it, contexts and searches would show its messages and their summary again."""
    hidden = await stage.memory("Ana broke her arm.", status=status)
    await conversation(stage)
    await message(stage, 1)
    await source(stage, hidden, 1)
    summary = {
        "conversation_id": "c1",
        "title": "Her arm",
        "summary": "Ana broke her arm.",
        "covers_to": 1,
    }
    await stage.put("conversation_summaries", **summary)
    for deleted in ("messages", "conversation_summaries"):
        assert (await stage.retention(30))["memories"] == 0, deleted
        await stage.rows(f"DELETE FROM {deleted}")
    assert (await stage.retention(30))["memories"] == 1


async def test_who_is_being_imported_is_left_to_the_next_run(stage: Stage) -> None:
    """H2: what an import has yet to store may say that the memory is used."""
    await stage.memory()
    await stage.user(importing_until=datetime.now(UTC) + timedelta(hours=1))
    assert await stage.retention(30) == {**NOTHING, "users_busy": 1}
    assert (await stage.decay())["users_busy"] == 1
    assert await stage.statuses() == {"Something.": "active"}
    await stage.user(importing_until=None)
    assert (await stage.retention(30))["memories"] == 1


@pytest.mark.parametrize(("silent", "goes"), [("29 days", False), ("31 days", True)])
async def test_somebody_who_still_writes_keeps_everything(
    stage: Stage, silent: str, goes: bool
) -> None:
    """Inactive = the user wrote nothing AND the memory was not returned."""
    await stage.memory()
    await conversation(stage, silent=silent)
    assert (await stage.planned_retention(30))["memories"] == int(goes)
    assert (await stage.retention(30))["memories"] == int(goes)


@pytest.mark.parametrize(
    ("actor", "goes"), [("someone", False), ("extraction", False), ("decay", True)]
)
async def test_a_change_by_a_person_is_use(stage: Stage, actor: str, goes: bool) -> None:
    memory_id = await stage.memory()
    await stage.record(memory_id, "updated", ago="5 days", actor=actor)
    assert (await stage.retention(30))["memories"] == int(goes)


async def test_nothing_is_left_of_a_memory(stage: Stage) -> None:
    """C3: content, versions, vectors, words, names, tags and history's contents are gone."""
    gone = await stage.memory(
        f"{CANARY} content", lexical_no=1, tags=[CANARY], age="40 days", accessed="35 days"
    )
    kept = await stage.memory("Kept content.", lexical_no=2, tags=["kept"], accessed="1 day")
    hidden = await stage.memory("Hidden.", lexical_no=3, tags=[CANARY], status="forgotten")
    await index(stage, **{f"{CANARY} content": 1, "Kept content.": 2, f"{CANARY} earlier": 7})
    await stage.rows("UPDATE users SET lexical_documents = 3, lexical_terms = 3")
    await stage.vector(gone)
    await stage.vector(kept)
    await source(stage, gone, 1)
    await stage.rows(
        "INSERT INTO memory_versions (tenant_id, user_id, memory_id, version, type, content,"
        " detail, importance, confidence, origin, status, tags, keywords, context, metadata,"
        " valid_from, known_from, known_to) SELECT tenant_id, user_id, memory_id, 9, type,"
        " 'earlier ' || content, detail, importance, confidence, origin, status, tags, keywords,"
        " context, metadata, valid_from, updated_at, updated_at FROM memories"
    )
    await stage.rows(
        "INSERT INTO history (tenant_id, user_id, event_id, recorded_at, subject, memory_id,"
        " action, version, actor, reason, before, after) SELECT tenant_id, user_id, memory_id,"
        " created_at, 'memory', memory_id, 'created', 1, 'extraction', content,"
        " jsonb_build_object('content', content), jsonb_build_object('content', content)"
        " FROM memories"
    )
    await stage.rows(
        "INSERT INTO consolidation_groups (tenant_id, user_id, tag, fingerprint, members)"
        " SELECT tenant_id, user_id, tags[1], decode(repeat('00', 32), 'hex'), 1 FROM memories"
        " WHERE status = 'active'"
    )
    for name, memory_ids in {CANARY: [gone], "Both": [gone, kept]}.items():
        entity = {"entity_id": memory_ids[-1]}
        called = {"name": name, "name_key": name.lower(), "type": "person"}
        await stage.put("entities", mention_count=len(memory_ids), **entity, **called)
        for memory_id in memory_ids:
            await stage.put("entity_mentions", memory_id=memory_id, **entity)
    # No mention by what is forgotten is counted.
    await stage.put("entity_mentions", entity_id=kept, memory_id=hidden)
    # Every place that a memory reaches is filled, or this test proves little.
    assert await tables_with_the_canary(stage) == {
        "consolidation_groups",
        "entities",
        "history",
        "memories",
        "memory_versions",
        "postings",
    }
    counts = await stage.retention(30)
    assert counts == {**NOTHING, "memories": 2, "versions": 2, "vectors": 2}
    dump = await stage.dump()
    assert CANARY not in dump
    assert "Kept content." in dump
    assert await stage.statuses() == {"Kept content.": "active"}
    assert await stage.rows("SELECT name, mention_count FROM entities") == [("Both", 1)]
    assert await stage.rows("SELECT tag FROM consolidation_groups") == [("kept",)]
    assert await stage.rows("SELECT lexical_documents, lexical_terms FROM users") == [(1, 1)]
    assert await stage.rows("SELECT DISTINCT lexical_nos FROM postings") == [([2],)]
    assert await stage.history(gone) == [
        ("created", 1, "extraction", None, None),
        ("expired", 1, "retention", None, None),
    ]
    ((_, _, _, before, _),) = await stage.history(kept)
    assert before == {"content": "Kept content."}


async def test_of_one_user_and_with_their_own_settings(stage: Stage) -> None:
    for user in ("ana", "bob", "eve"):
        await stage.memory("Something.", user=user)
    await stage.user("eve", retention_days=0)
    assert (await stage.retention(30, user="ana"))["memories"] == 1
    assert await stage.rows("SELECT user_id FROM memories ORDER BY 1") == [("bob",), ("eve",)]
    assert (await stage.retention(30))["memories"] == 1
    assert await stage.rows("SELECT user_id FROM memories") == [("eve",)]


async def test_a_memory_that_is_recalled_before_its_turn_stays(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = await stage.memory("Told.")
    await stage.memory("Untold.")
    lock = removal.lock_memories

    async def recalled(user: UserRows, found: list[UUID]) -> list[UUID]:
        await stage.told(told)
        return await lock(user, found)

    monkeypatch.setattr(removal, "lock_memories", recalled)
    assert (await stage.retention(30))["memories"] == 1
    assert await stage.rows("SELECT memory_id FROM memories") == [(told,)]


async def test_nothing_is_removed_of_somebody_who_is_being_erased(stage: Stage) -> None:
    await stage.memory()
    await stage.user("ana", erased_at="now")
    assert await stage.retention(30, user="ana") == NOTHING


async def test_a_user_who_stays_busy_waits_for_the_next_run(stage: Stage) -> None:
    for user in ("ana", "bob"):
        await stage.memory(user=user)
    async with stage.write.connection() as writer, writer.transaction():
        await users.lock_user(writer.of(ANA))
        counts = await stage.retention(30)
    assert counts == {**NOTHING, "memories": 1, "users_busy": 1}
    assert (await stage.retention(30))["memories"] == 1


async def test_a_lost_claim_removes_nothing(stage: Stage) -> None:
    """faults.md row 5."""
    await stage.memory()
    held = await stage.claimed("retention")
    await stage.rows("UPDATE jobs SET claim_no = claim_no + 1")
    with pytest.raises(ClaimLost):
        await Retention(stage.removal, RetentionDays(30, 0)).run(held)
    assert len(await stage.statuses()) == 1
