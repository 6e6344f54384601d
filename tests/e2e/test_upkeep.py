"""Decay, retention and schedules as a caller sees them: requirements C2, C3, C4."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from hitherto.v1 import (
    job_pb2,
)
from hitherto.v1 import maintenance_service_pb2 as pb
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import change
from tests.e2e.learning import ended, learn, memories, rows, talk
from tests.e2e.methods import METHODS, ask, refused
from tests.scripted_model import ScriptedModel

BOUND = 120.0
RUN_DECAY = METHODS["MaintenanceService/RunDecay"]
LIST_SCHEDULES = METHODS["MaintenanceService/ListSchedules"]


async def learnt(services: Services, word: str, user: str = "ana") -> None:
    """A memory `Canary …` made through the whole service."""
    await learn(services, talk(f"canary:{word}", user=user, conversation=word))


async def active(services: Services, user: str = "ana") -> list[str]:
    return sorted(memory.content for memory in await memories(services, user=user))


def grow_old(conninfo: str) -> None:
    """Set every memory's times back, and make all unimportant."""
    change(
        conninfo,
        "UPDATE memories SET importance = 0.2, created_at = created_at - %(age)s,"
        " updated_at = updated_at - %(age)s",
        age=timedelta(days=40),
    )


def snapshot(conninfo: str) -> list[Any]:
    """Everything that upkeep could have changed."""
    tables = ("memories", "memory_versions", "memory_embeddings", "messages", "history")
    return [rows(conninfo, f"SELECT t::text FROM {table} AS t ORDER BY 1") for table in tables]


async def test_decay_archives_and_a_dry_run_only_counts(modelled: Services) -> None:
    """C2: RunDecay, dry_run, counts at once and with the job; of one user in any case. B4: a
    repeated key is the same job."""
    for word in ("one", "two"):
        await learnt(modelled, word)
    await learnt(modelled, "three", "bob")
    before = await active(modelled)
    assert len(before) == 2
    grow_old(modelled.conninfo)
    told = snapshot(modelled.conninfo)
    counts = {
        "archived": 3,
        "archived_low_importance": 3,
        "archived_context": 0,
        "archived_over_limit": 0,
    }
    dry = await ask(modelled, "RunDecay", user_id="", dry_run=True)
    assert dict(dry.counts) == counts
    assert dry.job.state == job_pb2.JOB_STATE_SUCCEEDED
    assert dry.job.kind == "decay"
    assert dict(dry.job.result.counts) == counts
    assert dry.job.consistency_token
    assert snapshot(modelled.conninfo) == told
    assert await active(modelled) == before

    of_bob = await ask(modelled, "RunDecay", user_id="bob", idempotency_key="k")
    assert (of_bob.counts["archived"], of_bob.job.user_id) == (1, "bob")
    assert (await ended(modelled, of_bob.job.id)).result.counts["archived"] == 1
    again = await ask(modelled, "RunDecay", user_id="bob", idempotency_key="k")
    assert (again.job.id, dict(again.counts)) == (of_bob.job.id, dict(of_bob.counts))
    assert again.job.state == job_pb2.JOB_STATE_SUCCEEDED
    other = pb.RunDecayRequest(user_id="ana", idempotency_key="k")
    assert (await refused(modelled, RUN_DECAY, other)).reason == "IDEMPOTENCY_KEY_REUSED"
    assert await active(modelled, "bob") == []
    assert await active(modelled) == before

    run = await ask(modelled, "RunDecay", user_id="")
    assert dict(run.counts) == {}
    job = await ended(modelled, run.job.id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED
    assert dict(job.result.counts) == counts | {"archived": 2, "archived_low_importance": 2}
    assert await active(modelled) == []
    context = await ask(modelled, "GetContext", query="canary one")
    # What was said stays, and the summaries of it.
    relevant = [result for result in context.relevant if result.HasField("memory")]
    assert [*context.memories, *relevant] == []
    # The same again finds nothing more.
    once_more = await ask(modelled, "RunDecay", user_id="")
    assert (await ended(modelled, once_more.job.id)).result.counts["archived"] == 0


async def test_retention_removes_memories_and_messages(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """C3: what is old for the settings goes, as a dry run says, and learning goes on."""
    settings = {"retention_days": 30, "message_retention_days": 7}
    async with start_services(model, **settings) as services:
        await learnt(services, "goner")
        await learnt(services, "stays", "bob")
        for table, column in (
            ("memories", "created_at"),
            ("messages", "accepted_at"),
            ("conversations", "updated_at"),
            ("history", "recorded_at"),
        ):
            old = f"UPDATE {table} SET {column} = now() - interval '40 days' WHERE user_id = 'ana'"
            change(services.conninfo, old)
        told = snapshot(services.conninfo)
        dry = await ask(services, "RunRetention", user_id="", dry_run=True)
        assert (dry.counts["memories"], dry.counts["messages"]) == (1, 1)
        assert dry.job.state == job_pb2.JOB_STATE_SUCCEEDED
        assert snapshot(services.conninfo) == told
        run = await ask(services, "RunRetention", user_id="")
        job = await ended(services, run.job.id)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED
        assert (job.result.counts["memories"], job.result.counts["messages"]) == (1, 1)
        for table in ("memories", "messages"):
            assert rows(services.conninfo, f"SELECT DISTINCT user_id FROM {table}") == [("bob",)]
        await learnt(services, "later")
        assert len(await active(services, "ana")) == 1


async def test_schedules_are_listed_with_their_runs(start_services: StartServices) -> None:
    """C4: ListSchedules, by name and in pages; off is said."""
    async with start_services(
        schedule_idle="* * * * *", schedule_decay="15 3 * * 0", schedule_retention="0 4 * * *"
    ) as services:
        maintenance = services.maintenance
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


async def test_nobody_has_nothing_to_do(services: Services) -> None:
    """A user whom nobody knows, and a tenant without users."""
    for kind, user in itertools.product(("RunDecay", "RunRetention"), ("", "nobody")):
        begun = await ask(services, kind, user_id=user)
        job = await ended(services, begun.job.id)
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED
        assert set(job.result.counts.values()) == {0}
