"""Decay, retention and schedules as a caller sees them: requirements C2, C3, C4."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from hitherto.v1 import (
    extraction_service_pb2,
    job_pb2,
    maintenance_service_pb2_grpc,
    memory_pb2,
    retrieval_service_pb2,
)
from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_shared.database.pipeline_connection import PipelineConnection
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.methods import METHODS, refused
from tests.e2e.requests import message, submit, transcript
from tests.scripted_model import ScriptedModel

BOUND = 120.0
RUN_DECAY = METHODS["MaintenanceService/RunDecay"]
LIST_SCHEDULES = METHODS["MaintenanceService/ListSchedules"]


def stub(services: Services) -> maintenance_service_pb2_grpc.MaintenanceServiceAsyncStub:
    return maintenance_service_pb2_grpc.MaintenanceServiceStub(services.extraction_channel)


async def ended(services: Services, job_id: str) -> job_pb2.Job:
    """The job once it has ended."""
    last = job_pb2.Job()
    async with asyncio.timeout(BOUND):
        async for response in services.extraction.WatchJob(
            extraction_service_pb2.WatchJobRequest(job_id=job_id)
        ):
            last = response.job
    return last


async def learnt(services: Services, word: str, user: str = "ana") -> None:
    """A memory `Canary …` made through the whole service."""
    (job,) = (
        await services.extraction.SubmitTranscripts(
            submit(transcript(message(f"canary:{word}"), user=user, conversation=word))
        )
    ).jobs
    assert (await ended(services, job.id)).state == job_pb2.JOB_STATE_SUCCEEDED


async def active(services: Services, user: str = "ana") -> list[str]:
    """What is told of a user's memories."""
    response = await services.retrieval.ListMemories(
        retrieval_service_pb2.ListMemoriesRequest(
            user_id=user, statuses=[memory_pb2.MEMORY_STATUS_ACTIVE]
        )
    )
    return sorted(memory.content for memory in response.memories)


async def rows(conninfo: str, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
    async with await PipelineConnection.connect(conninfo, autocommit=True) as connection:
        cursor = await connection.execute(statement.encode(), parameters)
        return await cursor.fetchall()


async def grow_old(conninfo: str, days: int = 40) -> None:
    """Set every memory's times back, and make all unimportant."""
    await rows(
        conninfo,
        "UPDATE memories SET importance = 0.2, created_at = created_at - make_interval(days => %s),"
        " updated_at = updated_at - make_interval(days => %s)",
        days,
        days,
    )


async def snapshot(conninfo: str) -> list[Any]:
    """Everything that upkeep could have changed."""
    found = []
    for table in ("memories", "memory_versions", "memory_embeddings", "messages", "history"):
        found.append(await rows(conninfo, f"SELECT t::text FROM {table} AS t ORDER BY 1"))
    return found


async def test_decay_archives_and_a_dry_run_only_counts(
    modelled: Services, tenant_conninfo: str
) -> None:
    """C2: RunDecay, dry_run, counts at once and with the job."""
    for word in ("one", "two"):
        await learnt(modelled, word)
    before = await active(modelled)
    assert len(before) == 2
    await grow_old(tenant_conninfo)
    told = await snapshot(tenant_conninfo)
    counts = {
        "archived": 2,
        "archived_low_importance": 2,
        "archived_context": 0,
        "archived_over_limit": 0,
    }
    dry = await stub(modelled).RunDecay(pb.RunDecayRequest(dry_run=True))
    assert dict(dry.counts) == counts
    assert dry.job.state == job_pb2.JOB_STATE_SUCCEEDED
    assert dry.job.kind == "decay"
    assert dict(dry.job.result.counts) == counts
    assert dry.job.consistency_token
    assert await snapshot(tenant_conninfo) == told
    assert await active(modelled) == before
    run = await stub(modelled).RunDecay(pb.RunDecayRequest())
    assert dict(run.counts) == {}
    job = await ended(modelled, run.job.id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED
    assert dict(job.result.counts) == counts
    assert await active(modelled) == []
    context = await modelled.retrieval.GetContext(
        retrieval_service_pb2.GetContextRequest(user_id="ana", query="canary one")
    )
    # What was said stays, and the summaries of it.
    told = [result for result in context.relevant if result.HasField("memory")]
    assert [*context.memories, *told] == []
    # The same again finds nothing more.
    again = await stub(modelled).RunDecay(pb.RunDecayRequest())
    assert (await ended(modelled, again.job.id)).result.counts["archived"] == 0


async def test_of_one_user_the_counts_come_at_once(
    modelled: Services, tenant_conninfo: str
) -> None:
    for user in ("ana", "bob"):
        await learnt(modelled, f"of{user}", user)
    await grow_old(tenant_conninfo)
    run = await stub(modelled).RunDecay(pb.RunDecayRequest(user_id="ana"))
    assert run.counts["archived"] == 1
    assert run.job.user_id == "ana"
    assert (await ended(modelled, run.job.id)).result.counts["archived"] == 1
    assert await active(modelled, "ana") == []
    assert len(await active(modelled, "bob")) == 1


async def test_what_the_assistant_was_told_does_not_decay(
    modelled: Services, tenant_conninfo: str
) -> None:
    """faults.md row 42: a memory that a context told counts as used."""
    await learnt(modelled, "told")
    await learnt(modelled, "untold", "bob")
    await grow_old(tenant_conninfo)
    context = await modelled.retrieval.GetContext(
        retrieval_service_pb2.GetContextRequest(user_id="ana")
    )
    assert len(context.memories) == 1
    async with asyncio.timeout(BOUND):
        while not await rows(tenant_conninfo, "SELECT 1 FROM memory_access"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    run = await stub(modelled).RunDecay(pb.RunDecayRequest())
    await ended(modelled, run.job.id)
    assert len(await active(modelled, "ana")) == 1
    assert await active(modelled, "bob") == []


async def test_a_repeated_key_is_the_same_job(modelled: Services, tenant_conninfo: str) -> None:
    """B4 for upkeep: one job, the first counts, another body refused."""
    await learnt(modelled, "one")
    await grow_old(tenant_conninfo)
    request = pb.RunDecayRequest(user_id="ana", idempotency_key="k")
    first = await stub(modelled).RunDecay(request)
    await ended(modelled, first.job.id)
    second = await stub(modelled).RunDecay(request)
    assert second.job.id == first.job.id
    assert dict(second.counts) == dict(first.counts)
    assert second.job.state == job_pb2.JOB_STATE_SUCCEEDED
    refusal = await refused(
        modelled, RUN_DECAY, pb.RunDecayRequest(user_id="bob", idempotency_key="k")
    )
    assert refusal.reason == "IDEMPOTENCY_KEY_REUSED"


async def test_retention_is_off_unless_somebody_sets_it(
    modelled: Services, tenant_conninfo: str
) -> None:
    """C3: opt-in."""
    await learnt(modelled, "one")
    await grow_old(tenant_conninfo, 4000)
    await rows(tenant_conninfo, "UPDATE conversations SET updated_at = '2001-01-01'")
    await rows(tenant_conninfo, "UPDATE history SET recorded_at = '2001-01-01'")
    told = await snapshot(tenant_conninfo)
    run = await stub(modelled).RunRetention(pb.RunRetentionRequest())
    job = await ended(modelled, run.job.id)
    assert set(job.result.counts.values()) == {0}
    assert await snapshot(tenant_conninfo) == told


async def test_retention_removes_memories_and_messages(
    start_services: StartServices, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """C3: dry run, then nothing of the words is left but the conversation's summary."""
    async with start_services(
        **model_settings(model), retention_days=30, message_retention_days=7
    ) as services:
        await learnt(services, "goner")
        await learnt(services, "stays", "bob")
        await rows(
            superuser_conninfo,
            "UPDATE memories SET created_at = created_at - interval '40 days'"
            " WHERE user_id = 'ana'",
        )
        await rows(
            superuser_conninfo,
            "UPDATE messages SET accepted_at = now() - interval '8 days' WHERE user_id = 'ana'",
        )
        for table, column in (("conversations", "updated_at"), ("history", "recorded_at")):
            await rows(
                superuser_conninfo,
                f"UPDATE {table} SET {column} = now() - interval '40 days' WHERE user_id = 'ana'",
            )
        told = await snapshot(superuser_conninfo)
        dry = await stub(services).RunRetention(pb.RunRetentionRequest(dry_run=True))
        assert dry.counts["memories"] == 1
        assert dry.counts["messages"] == 1
        assert dry.job.state == job_pb2.JOB_STATE_SUCCEEDED
        assert await snapshot(superuser_conninfo) == told
        run = await stub(services).RunRetention(pb.RunRetentionRequest())
        job = await ended(services, run.job.id)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED
        assert job.result.counts["memories"] == 1
        assert job.result.counts["messages"] == 1
        assert await active(services, "ana") == []
        assert len(await active(services, "bob")) == 1
        assert await rows(
            superuser_conninfo,
            "SELECT user_id, count(*) FROM messages GROUP BY user_id",
        ) == [("bob", 1)]
        for table in ("memories", "memory_versions", "postings", "history", "messages"):
            assert not await rows(
                superuser_conninfo,
                f"SELECT 1 FROM {table} AS t WHERE user_id = 'ana' AND t::text LIKE '%%goner%%'",
            ), table
        # Learning goes on as before.
        await learnt(services, "later")
        assert len(await active(services, "ana")) == 1


async def test_schedules_are_listed_with_their_runs(start_services: StartServices) -> None:
    """C4: ListSchedules, by name and in pages; off is said."""
    async with start_services(
        schedule_idle="* * * * *", schedule_decay="15 3 * * 0", schedule_retention="0 4 * * *"
    ) as services:
        maintenance = stub(services)
        async with asyncio.timeout(BOUND):
            while True:
                listed = (await maintenance.ListSchedules(pb.ListSchedulesRequest())).schedules
                if all(each.HasField("last_run_at") for each in listed if each.cron != "off"):
                    break
                await asyncio.sleep(0.05)
        assert [(each.name, each.cron) for each in listed] == [
            ("audit", "30 0 * * *"),
            ("consolidation", "off"),
            ("decay", "15 3 * * 0"),
            ("idle", "* * * * *"),
            ("retention", "0 4 * * *"),
        ]
        now = datetime.now(UTC)
        decay = listed[2].next_run_at.ToDatetime(UTC)
        assert (decay.weekday(), decay.hour, decay.minute) == (6, 3, 15)
        assert decay > now
        assert not listed[1].HasField("next_run_at")
        # There was nobody, and so no job.
        assert {each.last_job_id for each in listed} == {""}
        names: list[str] = []
        token = ""
        while True:
            page = await maintenance.ListSchedules(
                pb.ListSchedulesRequest(page_size=3, page_token=token)
            )
            names += [each.name for each in page.schedules]
            token = page.next_page_token
            if not token:
                break
        assert names == ["audit", "consolidation", "decay", "idle", "retention"]
        refusal = await refused(
            services, LIST_SCHEDULES, pb.ListSchedulesRequest(page_token="broken")
        )
        assert refusal.reason == "INVALID_PAGE_TOKEN"


async def test_what_was_missed_is_run_when_the_service_is_back(
    start_services: StartServices, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """C4, faults.md row 40: two replicas start after a day; one job, which does the work."""
    async with start_services(**model_settings(model)) as services:
        await learnt(services, "old")
    await grow_old(superuser_conninfo)
    given = {**model_settings(model), "schedule_decay": "0 3 * * *"}
    async with start_services(**given) as services, start_services(**given) as other:
        async with asyncio.timeout(BOUND):
            while await active(services):  # noqa: ASYNC110 - the database is what changes
                await asyncio.sleep(0.05)
        listed = await stub(other).ListSchedules(pb.ListSchedulesRequest())
        (decay,) = (each for each in listed.schedules if each.name == "decay")
        job = await ended(services, decay.last_job_id)
        assert (job.kind, job.user_id, job.result.counts["archived"]) == ("decay", "", 1)
        assert await rows(
            superuser_conninfo, "SELECT count(*) FROM jobs WHERE schedule = 'decay'"
        ) == [(1,)]


@pytest.mark.parametrize("kind", ["RunDecay", "RunRetention"])
async def test_nobody_has_nothing_to_do(services: Services, kind: str) -> None:
    """A user whom nobody knows, and a tenant without users."""
    for user in ("", "nobody"):
        request = getattr(pb, f"{kind}Request")(user_id=user)
        response = await getattr(stub(services), kind)(request)
        job = await ended(services, response.job.id)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED
        assert set(job.result.counts.values()) == {0}
