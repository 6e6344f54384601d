"""The same thing said again, said otherwise, or no longer true, over real ports.

Requirements B11–B13, C6; contract "Identity"; faults.md rows 37, 38, 46.
"""

from __future__ import annotations

import asyncio
import unicodedata
from datetime import UTC, datetime, timedelta

import pytest

from hitherto.v1 import job_pb2, memory_pb2, retrieval_service_pb2
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.learning import (
    ALL_STATUSES,
    echo,
    ended,
    learn,
    memories,
    replies,
    rows,
    shown,
    submit,
    talk,
)
from tests.scripted_model import ScriptedModel
from tests.scripted_model.answers import memory

MARCH = datetime(2026, 3, 1, 12, tzinfo=UTC)
APRIL = MARCH + timedelta(days=31)
CAFE = "Ana likes the quiet little cafe near the old harbour"


# --- identity ------------------------------------------------------------------------------------


async def test_b12_the_newer_city_closes_the_older_one_and_nothing_else(
    modelled: Services, model: ScriptedModel, tenant_conninfo: str
) -> None:
    model.script = replies(
        {
            "moved": lambda r: {
                "new_memories": [memory("Ana lives in Berlin", ["m1"])],
                "contradicted_memories": [
                    {"id": shown(r, "Lisbon"), "by": 0, "reason": "she moved"}
                ],
            },
            "Lisbon": lambda r: {
                "new_memories": [
                    memory("Ana lives in Lisbon", ["m1"]),
                    memory("Ana plays the cello", ["m1"]),
                ]
            },
        }
    )
    await learn(modelled, talk("I live in Lisbon and play the cello", at=MARCH))
    untouched = "SELECT xmin::text, ctid::text, * FROM memories WHERE content LIKE '%cello%'"
    before = rows(tenant_conninfo, untouched)
    result = await learn(modelled, talk("I moved to Berlin", conversation="c2", at=APRIL))
    assert result.memories_contradicted == 1
    assert rows(tenant_conninfo, untouched) == before

    assert {m.content for m in await memories(modelled)} == {
        "Ana lives in Berlin",
        "Ana plays the cello",
    }
    everything = {m.content: m for m in await memories(modelled, statuses=ALL_STATUSES)}
    lisbon, berlin = everything["Ana lives in Lisbon"], everything["Ana lives in Berlin"]
    assert lisbon.status == memory_pb2.MEMORY_STATUS_CONTRADICTED
    assert (lisbon.superseded_by, list(berlin.supersedes)) == (berlin.id, [lisbon.id])
    assert lisbon.version == 2
    assert lisbon.valid_to == berlin.valid_from
    assert berlin.valid_from.ToDatetime(UTC) == APRIL

    # C6: one row per change, with what was before and what is after.
    history = rows(
        tenant_conninfo,
        "SELECT action, version, reason, before ->> 'status', after ->> 'status'"
        f" FROM history WHERE memory_id = '{lisbon.id}' ORDER BY version",
    )
    assert history == [
        ("created", 1, "learnt from a conversation", None, "active"),
        ("contradicted", 2, "she moved", "active", "contradicted"),
    ]
    kept = rows(
        tenant_conninfo, f"SELECT version, status FROM memory_versions"
        f" WHERE memory_id = '{lisbon.id}'",
    )  # fmt: skip
    assert kept == [(1, "active")]


async def test_b11_the_same_words_confirm_and_make_no_version(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = echo
    result = await learn(modelled, talk(CAFE), talk(CAFE, conversation="c2"))
    (only,) = await memories(modelled)
    assert only.version == 1
    assert list(only.source_message_ids) == ["c1-1", "c2-1"]
    assert (result.memories_created, result.counts["confirmed"]) == (0, 1)


@pytest.mark.parametrize(
    "other",
    [
        "Ana has 3 cats and a garden full of old roses",
        "Mia has 2 cats and a garden full of old roses",
        "Ana has no 2 cats and a garden full of old roses",
    ],
    ids=["number", "name", "negation"],
)
async def test_b11_a_near_miss_stays_a_memory_of_its_own(
    modelled: Services, model: ScriptedModel, other: str
) -> None:
    model.script = echo
    one = "Ana has 2 cats and a garden full of old roses"
    await learn(modelled, talk(one), talk(other, conversation="c2"))
    assert {m.content for m in await memories(modelled)} == {one, other}


async def test_row_46_composed_and_decomposed_vietnamese_are_one_memory(
    modelled: Services, model: ScriptedModel
) -> None:
    composed = unicodedata.normalize("NFC", "Tôi thích cà phê sữa đá ở Hà Nội")
    decomposed = unicodedata.normalize("NFD", composed)
    assert composed != decomposed
    model.script = echo
    await learn(modelled, talk(composed), talk(decomposed, conversation="c2"))
    (only,) = await memories(modelled)
    assert (only.content, only.version) == (composed, 1)
    for query in (composed, decomposed):
        found = await modelled.retrieval.SearchMemories(
            retrieval_service_pb2.SearchMemoriesRequest(user_id="ana", query=query)
        )
        assert [result.memory.id for result in found.results] == [only.id]


async def test_row_37_fifty_concurrent_batches_of_the_same_facts_are_one_memory_each(
    start_services: StartServices, model: ScriptedModel
) -> None:
    facts = ["Ana likes tea", "Ana owns a boat", "Ana has 2 cats"]
    model.script = echo
    async with start_services(**model_settings(model), worker_concurrency=4) as services:
        batches = [submit(services, talk(*facts, conversation=f"c{n}")) for n in range(50)]
        ids = [job_id for batch in await asyncio.gather(*batches) for job_id in batch]
        jobs = await asyncio.gather(*(ended(services, job_id, within=120.0) for job_id in ids))
        assert {job.state for job in jobs} == {job_pb2.JOB_STATE_SUCCEEDED}
        found = await memories(services, statuses=ALL_STATUSES)
    assert sorted(m.content for m in found) == sorted(facts)
    assert [len(m.sources) for m in found] == [50] * 3
    assert sum(job.result.memories_created for job in jobs) == 3


async def test_row_38_sessions_that_arrive_out_of_order_end_with_the_newest_words(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = replies(
        {
            "Lisbon": lambda r: {
                "new_memories": [memory("Ana lives in Lisbon", ["m1"])],
                "contradicted_memories": [{"id": shown(r, "Berlin"), "by": 0}],
            },
            "Berlin": lambda r: {"new_memories": [memory("Ana lives in Berlin", ["m1"])]},
        }
    )
    await learn(
        modelled,
        talk("I live in Berlin now", conversation="c2", at=APRIL),
        talk("I live in Lisbon", conversation="c1", at=MARCH),
    )
    assert [m.content for m in await memories(modelled)] == ["Ana lives in Berlin"]
    everything = {m.content: m for m in await memories(modelled, statuses=ALL_STATUSES)}
    lisbon, berlin = everything["Ana lives in Lisbon"], everything["Ana lives in Berlin"]
    assert lisbon.status == memory_pb2.MEMORY_STATUS_CONTRADICTED
    assert (lisbon.superseded_by, list(berlin.supersedes)) == (berlin.id, [lisbon.id])
    assert lisbon.valid_from.ToDatetime(UTC) == MARCH
    assert lisbon.valid_to.ToDatetime(UTC) == APRIL


async def test_row_38_messages_sent_again_are_extracted_once(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = echo
    lines = [f"Ana met person number {n} today" for n in range(20)]
    await learn(modelled, talk(*lines[:15]), talk(*lines))
    assert [len(request.messages) for request in model.chat_requests] == [15, 5]
    assert len(await memories(modelled)) == 20


async def test_b13_a_goal_that_was_reached_keeps_half_its_importance(
    modelled: Services, model: ScriptedModel, tenant_conninfo: str
) -> None:
    model.script = replies(
        {
            "I ran": lambda r: {
                "new_memories": [memory("Ana ran a marathon", ["m1"])],
                "achieved_goals": [{"id": shown(r, "marathon"), "by": 0}],
            },
            "want": lambda r: {
                "new_memories": [
                    memory("Ana wants to run a marathon", ["m1"], type="goal", importance=0.8)
                ]
            },
        }
    )
    result = await learn(
        modelled,
        talk("I want to run a marathon", at=MARCH),
        talk("I ran the marathon", conversation="c2", at=APRIL),
    )
    assert result.goals_achieved == 1
    goal, ran = await memories(modelled)
    assert (goal.status, goal.importance) == (memory_pb2.MEMORY_STATUS_ACHIEVED, 0.4)
    assert goal.superseded_by == ran.id
    assert rows(
        tenant_conninfo,
        "SELECT before ->> 'importance', after ->> 'importance' FROM history"
        " WHERE action = 'achieved'",
    ) == [("0.8", "0.4")]
