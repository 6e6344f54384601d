"""The same thing said again, said otherwise, or no longer true, over real ports.

Requirements B11–B13, C6; contract "Identity"; faults.md rows 37, 38, 46.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from hitherto.v1 import history_pb2, job_pb2, memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import events, plain
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
from tests.scripted_model.answers import memory

MARCH = datetime(2026, 3, 1, 12, tzinfo=UTC)
APRIL = MARCH + timedelta(days=31)


async def test_b12_the_newer_city_closes_the_older_one_and_nothing_else(modelled: Services) -> None:
    modelled.model.script = replies(
        {
            "moved": lambda r: {
                "new_memories": [memory("Ana lives in Berlin")],
                "contradicted_memories": [
                    {"id": shown(r, "Lisbon"), "by": 0, "reason": "she moved"}
                ],
            },
            "Lisbon": [memory("Ana lives in Lisbon"), memory("Ana plays the cello")],
        }
    )
    await learn(modelled, talk("I live in Lisbon and play the cello", at=MARCH))
    untouched = "SELECT xmin::text, ctid::text, * FROM memories WHERE content LIKE '%cello%'"
    before = rows(modelled.conninfo, untouched)
    result = await learn(modelled, talk("I moved to Berlin", conversation="c2", at=APRIL))
    assert result.memories_contradicted == 1
    assert rows(modelled.conninfo, untouched) == before

    current = {m.content for m in await memories(modelled)}
    assert current == {"Ana lives in Berlin", "Ana plays the cello"}
    everything = {m.content: m for m in await memories(modelled, statuses=ALL_STATUSES)}
    lisbon, berlin = everything["Ana lives in Lisbon"], everything["Ana lives in Berlin"]
    assert lisbon.status == memory_pb2.MEMORY_STATUS_CONTRADICTED
    assert (lisbon.superseded_by, list(berlin.supersedes)) == (berlin.id, [lisbon.id])
    assert lisbon.version == 2
    assert lisbon.valid_to == berlin.valid_from
    assert berlin.valid_from.ToDatetime(UTC) == APRIL

    # C6: one row per change, with what was before and what is after.
    ended, created = await events(modelled, lisbon.id)
    assert (created.version, created.reason) == (1, "learnt from a conversation")
    assert created.kind == history_pb2.HISTORY_EVENT_KIND_CREATED
    assert (dict(created.before), plain(created.after)["status"]) == ({}, "active")
    assert (ended.version, ended.reason) == (2, "she moved")
    assert ended.kind == history_pb2.HISTORY_EVENT_KIND_CONTRADICTED
    assert plain(ended.before)["status"] == "active"
    assert plain(ended.after)["status"] == "contradicted"
    kept = f"SELECT version, status FROM memory_versions WHERE memory_id = '{lisbon.id}'"
    assert rows(modelled.conninfo, kept) == [(1, "active")]


async def test_a_memory_that_one_reply_repeats_and_ends_names_what_it_replaced(
    modelled: Services,
) -> None:
    """Each names the one that it replaced, although both ended in the same transaction."""
    lisbon, porto, berlin = (f"Ana lives in {city}" for city in ("Lisbon", "Porto", "Berlin"))
    modelled.model.script = replies(
        {
            "moved": lambda r: {
                "new_memories": [memory(porto), memory(berlin)],
                "contradicted_memories": [
                    {"id": shown(r, "Lisbon"), "by": 0},
                    {"id": shown(r, "Porto"), "by": 1},
                ],
            },
            "Lisbon": [memory(lisbon), memory(porto)],
        }
    )
    await learn(modelled, talk("I live in Lisbon, or in Porto", at=MARCH))
    await learn(modelled, talk("I moved from Porto to Berlin", conversation="c2", at=APRIL))
    found = {m.content: m for m in await memories(modelled, statuses=ALL_STATUSES)}
    assert [m.content for m in await memories(modelled)] == [berlin]
    for old, new in ((lisbon, porto), (porto, berlin)):
        assert found[old].superseded_by == found[new].id
        assert list(found[new].supersedes) == [found[old].id]


async def test_row_37_concurrent_batches_of_the_same_facts_are_one_memory_each(
    modelled: Services,
) -> None:
    facts = ["Ana likes tea", "Ana owns a boat", "Ana has 2 cats"]
    modelled.model.script = echo
    batches = [submit(modelled, talk(*facts, conversation=f"c{n}")) for n in range(50)]
    ids = [job_id for batch in await asyncio.gather(*batches) for job_id in batch]
    jobs = await asyncio.gather(*(ended(modelled, job_id) for job_id in ids))
    assert {job.state for job in jobs} == {job_pb2.JOB_STATE_SUCCEEDED}
    found = await memories(modelled, statuses=ALL_STATUSES)
    assert sorted(m.content for m in found) == sorted(facts)
    assert [len(m.sources) for m in found] == [50] * 3
    assert sum(job.result.memories_created for job in jobs) == 3


async def test_row_38_sessions_that_arrive_out_of_order_end_with_the_newest_words(
    modelled: Services,
) -> None:
    modelled.model.script = replies(
        {
            "Lisbon": lambda r: {
                "new_memories": [memory("Ana lives in Lisbon")],
                "contradicted_memories": [{"id": shown(r, "Berlin"), "by": 0}],
            },
            "Berlin": [memory("Ana lives in Berlin")],
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
