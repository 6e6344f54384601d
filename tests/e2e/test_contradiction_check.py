"""The check that follows a save (B11, B12, B13): one question to the model, of whose answer only
contradictions and achieved goals count; faults.md rows 26, 29, 35, 67."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hitherto.v1 import extraction_service_pb2, job_pb2, memory_pb2, memory_service_pb2
from tests.e2e.conftest import Services
from tests.e2e.curating import change, checks, forget, history, save, statement, update
from tests.e2e.learning import ALL_STATUSES, ended, memories, replies, rows, shown
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel, StatusFault
from tests.scripted_model.answers import memory

CONTRADICTED = memory_pb2.MEMORY_STATUS_CONTRADICTED
MARCH = datetime(2024, 3, 1, tzinfo=UTC)
YEARS = timedelta(days=1_000)


async def by_city(services: Services) -> dict[str, memory_pb2.Memory]:
    return {m.content.split()[-1]: m for m in await memories(services, statuses=ALL_STATUSES)}


@pytest.mark.parametrize("by", [0, None, 7])
async def test_b12_the_saved_memory_takes_the_place_whatever_the_reply_says(
    modelled: Services, model: ScriptedModel, tenant_conninfo: str, by: int | None
) -> None:
    model.script = replies(
        {
            "Berlin": lambda r: {
                "new_memories": [memory("Ana lives in Berlin", ["m1"])],
                "contradicted_memories": [
                    {"id": shown(r, "Lisbon"), "by": by, "reason": "she moved"}
                ],
            }
        }
    )
    await save(modelled, "Ana lives in Lisbon")
    await save(modelled, "Ana plays the cello")
    await checks(modelled)
    untouched = "SELECT xmin::text, * FROM memories WHERE content LIKE '%cello%'"
    before = rows(tenant_conninfo, untouched)
    saved = (await save(modelled, "Ana lives in Berlin")).memory
    job = (await checks(modelled))[-1]
    assert job.kind == "memory-extraction"
    assert (job.result.memories_contradicted, job.result.memories_created) == (1, 0)
    assert (job.result.usage.llm_calls, job.result.usage.embedding_calls) == (1, 0)
    assert job.consistency_token

    found = await by_city(modelled)
    assert len(found) == 3
    lisbon, berlin = found["Lisbon"], found["Berlin"]
    assert (lisbon.status, lisbon.superseded_by) == (CONTRADICTED, saved.id)
    assert list(berlin.supersedes) == [lisbon.id]
    assert lisbon.valid_to.ToDatetime() == berlin.valid_from.ToDatetime()
    assert lisbon.job_id == job.id
    assert berlin.version == 1
    assert history(tenant_conninfo, lisbon.id)[-1][:3] == ("contradicted", 2, "she moved")
    assert rows(tenant_conninfo, untouched) == before
    # The question cost something, and the bill says for whom.
    assert rows(
        tenant_conninfo,
        f"SELECT stage, calls FROM usage_ledger WHERE job_id = '{job.id}' AND stage = 'extraction'",
    ) == [("extraction", 1)]


async def test_b12_it_ends_when_the_new_one_began(modelled: Services, model: ScriptedModel) -> None:
    model.script = replies(
        {"Berlin": lambda r: {"contradicted_memories": [{"id": shown(r, "Lisbon")}]}}
    )
    lisbon = statement("Ana lives in Lisbon")
    lisbon.valid_from.FromDatetime(datetime(2020, 1, 1, tzinfo=UTC))
    await modelled.memory.SaveMemory(lisbon)
    berlin = statement("Ana lives in Berlin")
    berlin.valid_from.FromDatetime(MARCH)
    await modelled.memory.SaveMemory(berlin)
    await checks(modelled)
    closed = (await by_city(modelled))["Lisbon"]
    assert closed.status == CONTRADICTED
    assert closed.valid_to.ToDatetime(UTC) == MARCH


async def test_b12_what_is_saved_late_ends_where_the_next_one_begins(
    modelled: Services, model: ScriptedModel, tenant_conninfo: str
) -> None:
    """As when statements are imported in another order than they came true."""

    def contradicted(request: ChatRequest) -> dict[str, object]:
        ends = [
            {"id": m.local_id, "reason": "she moved"}
            for m in request.memories
            if "cello" not in m.content
        ]
        return {"contradicted_memories": ends}

    model.script = replies({"Lisbon": contradicted})
    for words, began in (
        ("Ana lives in Rome", MARCH + YEARS / 10),
        ("Ana lives in Berlin", MARCH),
        ("Ana lives in Porto", MARCH - 2 * YEARS),
        ("Ana lives in Lisbon", MARCH - YEARS),
    ):
        saved = statement(words)
        saved.valid_from.FromDatetime(began)
        await modelled.memory.SaveMemory(saved)
        await checks(modelled)
    found = await by_city(modelled)
    berlin, lisbon, porto = found["Berlin"], found["Lisbon"], found["Porto"]
    assert (lisbon.status, lisbon.superseded_by) == (CONTRADICTED, berlin.id)
    assert lisbon.valid_to.ToDatetime(UTC) == MARCH
    assert list(berlin.supersedes) == [lisbon.id]
    assert (porto.status, porto.superseded_by) == (CONTRADICTED, lisbon.id)
    assert porto.valid_to.ToDatetime(UTC) == MARCH - YEARS
    assert berlin.status == found["Rome"].status == memory_pb2.MEMORY_STATUS_ACTIVE
    job = (await checks(modelled))[-1]
    assert job.result.memories_contradicted == 2
    assert history(tenant_conninfo, lisbon.id)[-1][:3] == ("contradicted", 2, "she moved")


async def test_b12_a_correction_that_began_earlier_ends_where_the_learnt_one_begins(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = replies(
        {"Oslo": lambda r: {"contradicted_memories": [{"id": shown(r, "Rome")}]}}
    )
    rome = statement("Ana lives in Rome")
    rome.valid_from.FromDatetime(MARCH)
    await modelled.memory.SaveMemory(rome)
    saved = (await save(modelled, "Ana likes Bern")).memory
    await checks(modelled)
    request = memory_service_pb2.UpdateMemoryRequest(user_id="ana", memory_id=saved.id)
    request.memory.content = "Ana lives in Oslo"
    request.memory.valid_from.FromDatetime(MARCH - YEARS)
    await modelled.memory.UpdateMemory(request)
    await checks(modelled)
    found = await by_city(modelled)
    assert found["Rome"].status == memory_pb2.MEMORY_STATUS_ACTIVE
    oslo = found["Oslo"]
    assert (oslo.status, oslo.superseded_by) == (CONTRADICTED, found["Rome"].id)
    assert oslo.valid_to.ToDatetime(UTC) == MARCH


async def test_b12_what_is_saved_late_does_not_end_on_the_word_of_a_lower_voice(
    modelled: Services, model: ScriptedModel
) -> None:
    model.script = replies(
        {"Lisbon": lambda r: {"contradicted_memories": [{"id": shown(r, "Berlin")}]}}
    )
    for words, began, origin in (
        ("Ana lives in Berlin", MARCH, memory_pb2.ORIGIN_DOCUMENT),
        ("Ana lives in Lisbon", MARCH - YEARS, memory_pb2.ORIGIN_USER),
    ):
        saved = statement(words, origin=origin)
        saved.valid_from.FromDatetime(began)
        await modelled.memory.SaveMemory(saved)
        await checks(modelled)
    assert {each.status for each in (await by_city(modelled)).values()} == {
        memory_pb2.MEMORY_STATUS_ACTIVE
    }
    job = (await checks(modelled))[-1]
    assert (job.result.memories_contradicted, job.result.dropped_items) == (0, 1)


async def test_the_model_is_shown_the_others_and_not_the_statement_itself(
    modelled: Services, model: ScriptedModel
) -> None:
    await save(modelled, "Ana lives in Lisbon")
    await checks(modelled)
    await save(modelled, "Ana lives in Berlin", origin=memory_pb2.ORIGIN_DOCUMENT)
    await checks(modelled)
    await save(modelled, "Ana lives near the sea", origin=memory_pb2.ORIGIN_OPERATOR)
    await checks(modelled)
    assert model.calls["chat"] == 2
    first, second = model.chat_requests
    assert [m.content for m in first.memories] == ["Ana lives in Lisbon"]
    assert [(m.role, m.content) for m in first.messages] == [("tool", "Ana lives in Berlin")]
    assert {m.content for m in second.memories} == {"Ana lives in Lisbon", "Ana lives in Berlin"}
    assert [(m.role, m.content) for m in second.messages] == [("user", "Ana lives near the sea")]


async def test_everything_else_of_the_answer_is_ignored(
    modelled: Services, model: ScriptedModel, tenant_conninfo: str
) -> None:
    def script(request: ChatRequest) -> ChatAnswer:
        return ChatAnswer.of(
            new_memories=[memory("Ana is a pirate", ["m1"])],
            updated_memories=[{"id": "e1", "content": "Ana lives in Lisbon with pirates"}],
            profile={"summary": "A pirate.", "facts": {"personal": {"name": "Ana"}}},
            conversation_summary={"title": "Pirates", "summary": "Pirates."},
        )

    model.script = script
    await save(modelled, "Ana lives in Lisbon")
    await save(modelled, "Ana likes tea")
    job = (await checks(modelled))[-1]
    assert (job.result.memories_created, job.result.memories_updated) == (0, 0)
    assert sorted(m.content for m in await memories(modelled, statuses=ALL_STATUSES)) == [
        "Ana likes tea",
        "Ana lives in Lisbon",
    ]
    for table in ("profiles", "conversation_summaries", "conversations", "entities", "preferences"):
        assert rows(tenant_conninfo, f"SELECT count(*) FROM {table}") == [(0,)], table


async def test_b13_a_goal_can_be_reached(
    modelled: Services, model: ScriptedModel, tenant_conninfo: str
) -> None:
    model.script = replies(
        {"ran": lambda r: {"achieved_goals": [{"id": shown(r, "wants"), "by": None}]}}
    )
    goal = await save(
        modelled, "Ana wants to run a marathon", type=memory_pb2.MEMORY_TYPE_GOAL, importance=0.8
    )
    saved = (await save(modelled, "Ana ran the marathon of Porto")).memory
    job = (await checks(modelled))[-1]
    assert job.result.goals_achieved == 1
    (reached,) = [m for m in await memories(modelled) if m.id == goal.memory.id]
    assert reached.status == memory_pb2.MEMORY_STATUS_ACHIEVED
    assert (reached.importance, reached.superseded_by) == (0.4, saved.id)


async def test_row_67_a_lower_voice_that_contradicts_a_higher_one_waits(
    modelled: Services, model: ScriptedModel, tenant_conninfo: str
) -> None:
    model.script = replies(
        {"Rome": lambda r: {"contradicted_memories": [{"id": shown(r, "Porto"), "by": 0}]}}
    )
    porto = (await save(modelled, "Ana lives in Porto")).memory
    rome = (await save(modelled, "Ana lives in Rome", origin=memory_pb2.ORIGIN_ASSISTANT)).memory
    assert rome.status == memory_pb2.MEMORY_STATUS_ACTIVE
    job = (await checks(modelled))[-1]
    assert (job.result.memories_contradicted, job.result.counts["quarantined"]) == (0, 1)
    found = await by_city(modelled)
    assert (found["Porto"].status, found["Porto"].version) == (
        memory_pb2.MEMORY_STATUS_ACTIVE,
        1,
    )
    assert found["Rome"].status == memory_pb2.MEMORY_STATUS_QUARANTINED
    assert rows(
        tenant_conninfo, f"SELECT challenges::text[] FROM memories WHERE memory_id = '{rome.id}'"
    ) == [([porto.id],)]


async def test_row_29_a_reply_that_contradicts_everything_changes_nothing(
    modelled: Services, model: ScriptedModel
) -> None:
    for n, place in enumerate(("Porto", "Rome", "Paris", "Oslo", "Bern", "Kyiv")):
        await save(modelled, f"Ana lived {n + 2} years in {place}")
    await checks(modelled)
    model.script = lambda request: ChatAnswer.of(
        contradicted_memories=[{"id": m.local_id, "by": None} for m in request.memories]
    )
    await save(modelled, "Ana has never lived anywhere")
    job = (await checks(modelled))[-1]
    assert job.result.memories_contradicted == 0
    assert job.result.dropped_items == 6
    assert len(await memories(modelled)) == 7


async def test_what_is_forgotten_or_reworded_meanwhile_closes_nothing(
    modelled: Services, model: ScriptedModel
) -> None:
    await save(modelled, "Ana lives in Lisbon")
    await checks(modelled)
    changes = {
        "Berlin": lambda memory_id: forget(modelled, memory_id),
        "Vienna": lambda memory_id: update(modelled, memory_id, content="Ana likes waltzes"),
    }
    for city, change_it in changes.items():

        async def script(
            request: ChatRequest, city: str = city, change_it: object = change_it
        ) -> ChatAnswer:
            (saved,) = [m for m in await memories(modelled) if city in m.content]
            await change_it(saved.id)  # type: ignore[operator]
            return ChatAnswer.of(contradicted_memories=[{"id": shown(request, "Lisbon")}])

        model.script = script
        await save(modelled, f"Ana lives in {city}")
        assert (await checks(modelled))[-1].result.memories_contradicted == 0
    assert (await by_city(modelled))["Lisbon"].status == memory_pb2.MEMORY_STATUS_ACTIVE


async def test_row_26_a_check_that_fails_is_tried_again(
    modelled: Services, model: ScriptedModel
) -> None:
    await save(modelled, "Ana lives in Lisbon")
    await checks(modelled)
    model.queue(StatusFault(500), StatusFault(503), ChatAnswer("prose"), ChatAnswer("{}"))
    model.script = replies(
        {"Berlin": lambda r: {"contradicted_memories": [{"id": shown(r, "Lisbon")}]}}
    )
    await save(modelled, "Ana lives in Berlin")
    assert (await checks(modelled))[-1].result.memories_contradicted == 1


async def test_a_check_can_be_run_again_and_changes_nothing_more(
    modelled: Services, model: ScriptedModel, tenant_conninfo: str
) -> None:
    await save(modelled, "Ana lives in Lisbon")
    model.script = replies(
        {"Berlin": lambda r: {"contradicted_memories": [{"id": shown(r, "Lisbon")}]}}
    )
    await save(modelled, "Ana lives in Berlin")
    job = (await checks(modelled))[-1]
    change(
        tenant_conninfo,
        "UPDATE jobs SET state = 'dead' WHERE job_id = %(id)s",
        id=job.id,
    )
    model.script = replies({})
    before = rows(tenant_conninfo, "SELECT xmin::text, * FROM memories ORDER BY memory_id")
    await modelled.extraction.RetryJob(extraction_service_pb2.RetryJobRequest(job_id=job.id))
    assert (await ended(modelled, job.id)).state == job_pb2.JOB_STATE_SUCCEEDED
    after = rows(tenant_conninfo, "SELECT xmin::text, * FROM memories ORDER BY memory_id")
    assert after == before


async def test_nothing_is_asked_where_nothing_new_was_said(
    modelled: Services, model: ScriptedModel
) -> None:
    await save(modelled, "Ana lives in Lisbon")
    await save(modelled, "Ana likes tea")
    await checks(modelled)
    asked = model.calls["chat"]
    await save(modelled, "ana likes tea.")
    await save(modelled, "Ana likes tea", tags=["drinks"], metadata={"a": 1})
    await checks(modelled)
    assert model.calls["chat"] == asked


async def test_it_works_without_a_model(services: Services) -> None:
    await save(services, "I live in Lisbon.")
    await save(services, "I moved to Berlin, I live in Berlin now.")
    done = await checks(services)
    assert len(done) == 2
    assert {job.result.extractor for job in done} <= {"", "offline"}
