"""Decay (requirement C2): each rule with its edges, what it writes, whom it waits for.

Rows of the fault catalogue: 39 (with other writers), 41 (clocks), 42 (with reads).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hitherto_extraction.queue import claims
from hitherto_extraction.queue.claims import Claim, ClaimLost
from hitherto_extraction.storage import upkeep, users
from hitherto_extraction.upkeep.decay import Decay
from hitherto_shared.models import Scope
from tests.integration.upkeep.stage import TENANT, Stage
from tests.waiting import eventually

NOTHING = {
    "archived": 0,
    "archived_low_importance": 0,
    "archived_context": 0,
    "archived_over_limit": 0,
}
MINUTE = "1 minute"


EDGES: list[tuple[dict[str, Any], str | None]] = [
    ({}, "low_importance"),
    ({"importance": 0.3}, None),
    ({"importance": 0.2999}, "low_importance"),
    ({"importance": 0.9}, None),
    ({"age": f"30 days {MINUTE}"}, "low_importance"),
    ({"age": "29 days 23:59"}, None),
    ({"age": "300 days", "accessed": "29 days 23:59"}, None),
    ({"age": "300 days", "accessed": f"30 days {MINUTE}"}, "low_importance"),
    ({"type": "decision", "importance": 0.0, "age": "300 days"}, None),
    ({"type": "context", "importance": 0.9, "age": f"90 days {MINUTE}"}, "context"),
    ({"type": "context", "importance": 0.9, "age": "89 days 23:59"}, None),
    ({"type": "context", "importance": 0.9, "age": "300 days", "changed": "80 days"}, None),
    ({"type": "context", "importance": 0.9, "age": "99 days", "accessed": "1 s"}, "context"),
    ({"type": "context", "importance": 0.1, "age": "99 days"}, "context"),
    ({"type": "context", "importance": 0.1, "age": "40 days"}, "low_importance"),
    ({"type": "fact", "importance": 0.9, "age": "300 days"}, None),
    ({"type": "goal", "status": "achieved"}, "low_importance"),
    ({"status": "quarantined"}, None),
    ({"status": "forgotten"}, None),
    ({"status": "contradicted"}, None),
    ({"status": "archived"}, None),
]


async def test_the_rules_at_their_edges(stage: Stage) -> None:
    """C2, details.md: what decays, and what never does."""
    for number, (given, rule) in enumerate(EDGES):
        user = f"u{number}"
        await stage.memory(user=user, **given)
        before = await stage.statuses(user)
        planned = await stage.planned_decay(user)
        counts = await stage.decay(user)
        assert counts == planned, given
        if rule is None:
            assert counts == NOTHING, given
            assert await stage.statuses(user) == before, given
        else:
            assert counts == {**NOTHING, "archived": 1, f"archived_{rule}": 1}, given
            assert set((await stage.statuses(user)).values()) == {"archived"}, given


@pytest.mark.parametrize(("unit", "fades"), [("0 s", False), ("1 microsecond", True)])
async def test_exactly_thirty_days_are_not_more_than_thirty_days(
    stage: Stage, unit: str, fades: bool
) -> None:
    memory_id = await stage.memory(age="99 days", accessed="50 days")
    async with stage.maintenance.connection() as connection, connection.transaction():
        at = await users.database_now(connection)
        await stage.rows(
            "UPDATE memory_access SET last_accessed_at = %s - %s::interval",
            at - timedelta(days=30),
            unit,
        )
        held = await stage.claimed("decay")
        await upkeep.lock_users(connection, TENANT, ["ana"], wait=True)
        archived = await upkeep.archive(
            connection, TENANT, [("ana", memory_id)], at=at, job_id=held.job_id
        )
    assert archived == ({"low_importance": 1} if fades else {})


async def test_what_archiving_writes(stage: Stage) -> None:
    """C2, C5, C6: the version kept, the vector's copy of the status, history, expiry."""
    faded = await stage.memory("Faded.")
    old = await stage.memory("Context.", type="context", age="91 days")
    soon = await stage.memory("Soon.", expires="1 day")
    done = await stage.memory("Done.", type="goal", status="achieved")
    await stage.vector(faded)
    held = await stage.claimed("decay")
    await Decay(stage.maintenance, max_memories=0).run(held)
    assert await stage.rows(
        "SELECT version, status, job_id,"
        " round(extract(epoch FROM expires_at - updated_at) / 86400), valid_to"
        " FROM memories WHERE memory_id = %s",
        faded,
    ) == [(2, "archived", held.job_id, 90, None)]
    assert await stage.value(
        "SELECT expires_at = updated_at FROM memories WHERE memory_id = %s", old
    )
    # What was to end sooner still does.
    assert await stage.value(
        "SELECT expires_at < now() + interval '2 days' FROM memories WHERE memory_id = %s", soon
    )
    assert await stage.rows(
        "SELECT v.version, v.status, v.content, v.expires_at, v.known_to = m.updated_at"
        " FROM memory_versions v JOIN memories m USING (memory_id) WHERE v.memory_id = %s",
        faded,
    ) == [(1, "active", "Faded.", None, True)]
    assert await stage.rows("SELECT status FROM memory_embeddings") == [("archived",)]
    assert await stage.history(faded) == [("archived", 2, "decay", None, None)]
    assert await stage.value("SELECT count(*) FROM history WHERE job_id = %s", held.job_id) == 4
    told = "SELECT memory_id, old_status, new_status FROM memory_changes"
    changed = [(each, "active", "archived") for each in (faded, old, soon)]
    assert set(await stage.rows(told)) == {*changed, (done, "achieved", "archived")}
    # A second run finds nothing more.
    assert await stage.decay() == NOTHING


async def test_what_is_sealed_says_why_it_was_archived_too(stage: Stage) -> None:
    """The reason is one of a few, and quotes nobody."""
    memory_id = await stage.memory()
    await stage.user(encrypt_sensitive=True, key_id="k1")
    await stage.rows(
        "UPDATE memories SET content = '', lexical_length = 0, sensitive = true,"
        " sealed = '\\x0200000001', embedding_state = 'sealed' WHERE memory_id = %s",
        memory_id,
    )
    await stage.decay()
    assert await stage.value("SELECT status FROM memories") == "archived"
    assert await stage.value(
        "SELECT reason FROM history WHERE action = 'archived' AND memory_id = %s", memory_id
    )


async def test_a_restored_memory_is_left_alone_for_thirty_days(stage: Stage) -> None:
    """C5: the next night does not undo what a person wanted."""
    kept = await stage.memory("Kept.", age="99 days")
    await stage.record(kept, "restored", ago="29 days")
    gone = await stage.memory("Gone.", age="99 days")
    await stage.record(gone, "restored", ago="31 days")
    await stage.decay()
    assert await stage.statuses() == {"Kept.": "active", "Gone.": "archived"}


async def test_of_one_user_and_of_one_tenant(stage: Stage) -> None:
    for user in ("ana", "bob"):
        await stage.memory("Something.", user=user)
    await stage.rows("INSERT INTO users (tenant_id, user_id) VALUES ('other', 'ana')")
    await stage.rows(
        "INSERT INTO memories (tenant_id, user_id, memory_id, type, content, importance,"
        " confidence, source, origin, valid_from, said_at, created_at, lexical_no, lexical_length)"
        " SELECT 'other', 'ana', memory_id, type, content, importance, confidence, source, origin,"
        " valid_from, said_at, created_at, 1, 1 FROM memories WHERE user_id = 'ana'"
    )
    assert (await stage.decay("ana"))["archived"] == 1
    assert await stage.rows("SELECT tenant_id, user_id, status FROM memories ORDER BY 1, 2") == [
        (TENANT, "ana", "archived"),
        (TENANT, "bob", "active"),
        ("other", "ana", "active"),
    ]
    assert (await stage.decay())["archived"] == 1
    assert await stage.value("SELECT status FROM memories WHERE tenant_id = 'other'") == "active"


async def test_many_batches_go_through_everything_once(stage: Stage) -> None:
    for user in ("ana", "bob", "eve"):
        for number in range(7):
            await stage.memory(
                f"{number}", user=user, accessed="1 day" if number % 3 == 0 else None
            )
    counts = await stage.decay(batch=2)
    assert counts["archived_low_importance"] == 12
    for user in ("ana", "bob", "eve"):
        assert await stage.statuses(user) == {
            f"{number}": "active" if number % 3 == 0 else "archived" for number in range(7)
        }


@pytest.mark.parametrize("told", [True, False])
async def test_what_happens_in_between_saves_a_memory(stage: Stage, told: bool) -> None:
    """faults.md rows 42 and 39: the rule is asked again in the statement that archives. Neither a
    memory that was told since the look nor one that was edited is archived."""
    saved = await stage.memory("Saved.")
    faded = await stage.memory("Faded.")
    held = await stage.claimed("decay")
    edit = "UPDATE memories SET importance = 0.8, version = 2 WHERE content = 'Saved.'"
    async with stage.maintenance.connection() as connection:
        fading, _ = await upkeep.look(
            connection, TENANT, user_id=None, after=("", upkeep.FIRST), limit=10
        )
        assert {memory_id for _, memory_id in fading} == {saved, faded}
        if not told:
            await stage.rows(edit)
        async with connection.transaction():
            await upkeep.lock_users(connection, TENANT, ["ana"], wait=False)
            if told:
                # The other connection: the retrieval service counts what it has just told.
                await stage.told(saved)
            at = await users.database_now(connection)
            archived = await upkeep.archive(connection, TENANT, fading, at=at, job_id=held.job_id)
    assert archived == {"low_importance": 1}
    assert await stage.rows("SELECT content, status, version FROM memories ORDER BY 1") == [
        ("Faded.", "archived", 2),
        ("Saved.", "active", 1 if told else 2),
    ]


async def test_whoever_is_being_written_to_is_passed_over_and_comes_last(stage: Stage) -> None:
    """faults.md row 39: decay holds nobody while it waits for somebody."""
    for user in ("ana", "bob", "eve"):
        await stage.memory("Something.", user=user)
    held = await stage.claimed("decay")

    async def others_done() -> bool:
        return (await stage.statuses("ana"), await stage.statuses("eve")) == (
            {"Something.": "archived"},
            {"Something.": "archived"},
        )

    async with stage.write.connection() as writer:
        async with writer.transaction():
            await users.lock_user(writer.of(Scope(TENANT, "bob")))
            run = asyncio.create_task(Decay(stage.maintenance, max_memories=0).run(held))
            await eventually(others_done)
            # The others are free again while it waits for bob.
            async with stage.write.connection() as another, another.transaction():
                await another.execute("SET LOCAL lock_timeout = '2s'")
                await users.lock_user(another.of(Scope(TENANT, "ana")))
                await users.lock_user(another.of(Scope(TENANT, "eve")))
            assert await stage.statuses("bob") == {"Something.": "active"}
        await run
    assert await stage.statuses("bob") == {"Something.": "archived"}
    assert (await stage.counts(held))["archived"] == 3


async def test_a_user_who_stays_busy_waits_for_the_next_run(stage: Stage) -> None:
    await stage.memory("Something.")
    held = await stage.claimed("decay")
    async with stage.write.connection() as writer, writer.transaction():
        await users.lock_user(writer.of(Scope(TENANT, "ana")))
        # Longer than a lock is waited for.
        await Decay(stage.maintenance, max_memories=0).run(held)
    assert await stage.counts(held) == {**NOTHING, "users_busy": 1}
    assert (await stage.decay())["archived"] == 1


async def test_a_lost_claim_archives_nothing(stage: Stage) -> None:
    """faults.md row 5: the fence holds for upkeep too."""
    await stage.memory("Something.")
    held = await stage.claimed("decay")
    await stage.rows("UPDATE jobs SET claim_no = claim_no + 1")
    with pytest.raises(ClaimLost):
        await Decay(stage.maintenance, max_memories=0).run(held)
    assert await stage.statuses() == {"Something.": "active"}
    assert await stage.rows("SELECT 1 FROM history") == []


async def test_a_second_attempt_goes_on_with_the_counts_of_the_first(stage: Stage) -> None:
    """The progress of every batch is kept with its effects; who was busy is tried again."""
    await stage.memory("Something.")
    held = await stage.claimed("decay")
    first = '{"counts": {"archived": 5, "archived_context": 5, "users_busy": 2}}'
    await stage.rows(f"UPDATE jobs SET result = '{first}'")
    await stage.rows("UPDATE jobs SET lease_until = now() - interval '1 second'")
    (again,) = await _claim(stage)
    await Decay(stage.maintenance, max_memories=0).run(again)
    assert await stage.counts(held) == {
        **NOTHING,
        "archived": 6,
        "archived_context": 5,
        "archived_low_importance": 1,
    }


async def _claim(stage: Stage) -> list[Claim]:
    async with stage.maintenance.connection() as connection:
        return await claims.claim(
            connection, worker="again", kinds=["decay"], limit=1, lease_seconds=60
        )


async def test_an_erased_user_is_left_alone(stage: Stage) -> None:
    await stage.memory("Something.")
    await stage.user("ana", erased_at="now")
    assert await stage.decay() == NOTHING
    assert await stage.statuses() == {"Something.": "active"}


async def test_two_runs_at_once_archive_once(stage: Stage) -> None:
    """faults.md row 40: fired twice."""
    for number in range(20):
        await stage.memory(f"{number}", user=f"u{number % 4}")
    first = await stage.claimed("decay")
    second = await stage.claimed("decay")
    decay = Decay(stage.maintenance, max_memories=0, batch=3)
    await asyncio.gather(decay.run(first), decay.run(second))
    assert (await stage.counts(first))["archived"] + (await stage.counts(second))["archived"] == 20
    assert await stage.value("SELECT count(*) FROM memory_versions") == 20
    assert await stage.value("SELECT count(*) FROM history") == 20
    assert await stage.value("SELECT max(version) FROM memories") == 2


async def test_above_the_limit_the_least_important_and_longest_unused_go(stage: Stage) -> None:
    """C3: HITHERTO_MAX_MEMORIES, never decisions."""
    await stage.memory("top", importance=0.9, age="9 days")
    await stage.memory("decided", importance=0.0, age="9 days", type="decision")
    await stage.memory("used", importance=0.5, age="9 days", accessed="1 day")
    await stage.memory("unused", importance=0.5, age="9 days", accessed="5 days")
    await stage.memory("never told", importance=0.5, age="7 days")
    await stage.memory("little", importance=0.4, age="1 day")
    await stage.memory("gone by itself", importance=0.4, age="9 days", expires="-1 day")
    await stage.memory("achieved", importance=0.4, age="9 days", type="goal", status="achieved")
    await stage.memory("alone", user="bob", importance=0.1, age="1 day")
    # What fades is not removed once more, nor is another in its place.
    for number in range(4):
        await stage.memory(f"decision {number}", user="cy", type="decision")
    await stage.memory("fading", user="cy", importance=0.1, age="40 days")
    await stage.memory("surplus", user="cy", importance=0.9, age="1 day")
    planned = await stage.planned_decay(most=3)
    counts = await stage.decay(most=3, batch=2)
    kinds = {"archived_low_importance": 1, "archived_over_limit": 4}
    assert counts == planned == {**NOTHING, "archived": 5, **kinds}
    archived = {key for key, status in (await stage.statuses()).items() if status == "archived"}
    assert archived == {"little", "never told", "unused"}
    assert await stage.statuses("bob") == {"alone": "active"}
    assert (await stage.decay(most=3))["archived"] == 0
