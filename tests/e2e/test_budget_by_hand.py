"""What is saved by hand is on the bill and within the budget, and nothing is lost (B14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from hitherto.v1 import extraction_service_pb2, job_pb2, memory_pb2
from hitherto.v1 import memory_service_pb2 as pb
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.learning import ended, rows, submit, talk
from tests.e2e.methods import ask
from tests.e2e.spending import KIND, USER, spend, usage
from tests.scripted_model import ScriptedModel

pytestmark = pytest.mark.usefixtures("frequent_sweeps")

_VECTORS = "SELECT count(*) FROM memory_embeddings"
_STATES = "SELECT embedding_state, count(*)::int FROM memories GROUP BY 1 ORDER BY 1"
_LATE = "UPDATE jobs SET run_after = now() + interval '8 hours' WHERE state = 'failed' RETURNING 1"


async def save(services: Services, content: str, *, user: str = "ana") -> memory_pb2.Memory:
    request = pb.SaveMemoryRequest(user_id=user, content=content)
    return (await services.memory.SaveMemory(request)).memory


async def stream(
    services: Services, *contents: str, user: str = "ana"
) -> pb.StreamMemoriesResponse:
    async def items() -> AsyncIterator[pb.StreamMemoriesRequest]:
        for content in contents:
            yield pb.StreamMemoriesRequest(item=pb.SaveMemoryRequest(user_id=user, content=content))

    return await services.memory.StreamMemories(items())


async def correct(services: Services, memory: memory_pb2.Memory, content: str) -> None:
    await services.memory.UpdateMemory(
        pb.UpdateMemoryRequest(
            user_id=memory.user_id,
            memory_id=memory.id,
            memory=memory_pb2.Memory(content=content),
            update_mask=FieldMask(paths=["content"]),
        )
    )


async def found(services: Services, query: str) -> list[str]:
    response = await ask(services, "SearchMemories", query=query)
    return [result.memory.content for result in response.results]


async def waits(services: Services, job_id: str) -> None:
    async with asyncio.timeout(180):
        async for response in services.extraction.WatchJob(
            extraction_service_pb2.WatchJobRequest(job_id=job_id)
        ):
            if response.job.error.startswith("BUDGET_EXHAUSTED"):
                return


async def test_b14_what_is_saved_by_hand_is_on_the_bill_by_kind_and_user(
    start_services: StartServices, model: ScriptedModel
) -> None:
    async with start_services(**model_settings(model)) as services:
        saved = await save(services, "Ana plays the cello in an orchestra.")
        await stream(services, "Bo is learning Portuguese.", "Bo drinks no coffee.", user="bo")
        await correct(services, saved, "Ana plays the viola in a quartet.")
        by_hand = ["memory-saving", "memory-import", "memory-correction"]
        told = await usage(services, KIND, USER, kinds=by_hand)
        calls = {(row.user_id, row.kind): row.usage.embedding_calls for row in told.rows}
        # What a stream brings is embedded as it comes.
        assert calls.pop(("bo", "memory-import")) in (1, 2)
        assert calls == {("ana", "memory-saving"): 1, ("ana", "memory-correction"): 1}
        for row in told.rows:
            assert row.usage.embedding_tokens > 0
            assert row.usage.cost_usd > 0
            assert row.usage.llm_calls == 0


async def test_b14_without_budget_all_is_stored_without_a_vector_and_made_up_for(
    start_services: StartServices, model: ScriptedModel, superuser_conninfo: str
) -> None:
    async with start_services(**model_settings(model), daily_budget_usd=1.0) as services:
        known = await save(services, "Ana plays the cello in an orchestra.")
        assert rows(superuser_conninfo, _VECTORS) == [(1,)]
        spend(superuser_conninfo, 1.0)
        before = model.calls["embeddings"]
        await save(services, "Ana collects stamps of the moon.")
        reply = await stream(services, "Ana is afraid of geese.", "Ana bakes rye bread.")
        assert (reply.saved_count, reply.rejected_count) == (2, 0)
        await correct(services, known, "Ana plays the viola in a quartet.")
        assert model.calls["embeddings"] == before
        assert dict(rows(superuser_conninfo, _STATES)) == {"pending": 4}
        assert "Ana is afraid of geese." in await found(services, "geese")
    async with start_services(**model_settings(model), daily_budget_usd=5.0) as services:
        async with asyncio.timeout(180):
            while dict(rows(superuser_conninfo, _STATES)) != {"stored": 4}:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        later = await usage(services, KIND, kinds=["reembedding"])
        assert later.total.embedding_calls >= 1


async def test_b14_the_back_fill_leaves_a_spent_tenant_alone_and_serves_the_others(
    start_services: StartServices, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """More of the spent tenant's texts wait, and longer, than go into one batch."""
    async with start_services(**model_settings(model), daily_budget_usd=1.0) as services:
        spend(superuser_conninfo, 1.0)
        await stream(services, *(f"Ana keeps the note w{n * 7919 % 1009}." for n in range(70)))
        assert dict(rows(superuser_conninfo, _STATES)) == {"pending": 70}
        # One of another tenant that came last, as the database has it.
        rows(
            superuser_conninfo,
            "WITH u AS (INSERT INTO users SELECT (jsonb_populate_record(x, jsonb_build_object("
            "'tenant_id', 'other'))).* FROM users AS x RETURNING 1),"
            " m AS (SELECT (jsonb_populate_record(x, jsonb_build_object('tenant_id', 'other',"
            " 'created_at', now() + interval '1 minute'))).* FROM memories AS x LIMIT 1)"
            " INSERT INTO memories SELECT * FROM m RETURNING 1",
        )
        other = "SELECT embedding_state FROM memories WHERE tenant_id = 'other'"
        async with asyncio.timeout(180):
            while rows(superuser_conninfo, other) != [("stored",)]:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        ours = "SELECT DISTINCT embedding_state FROM memories WHERE tenant_id = 'default'"
        assert rows(superuser_conninfo, ours) == [("pending",)]


@pytest.mark.parametrize("how", ["start", "retry"])
async def test_b14_raising_the_budget_lets_paused_work_go_on_at_once(
    start_services: StartServices, model: ScriptedModel, superuser_conninfo: str, how: str
) -> None:
    spend(superuser_conninfo, 1.0)
    async with start_services(**model_settings(model), daily_budget_usd=1.0) as services:
        (job_id,) = await submit(services, talk("remember canary:heron"))
        await waits(services, job_id)
    async with start_services(
        **model_settings(model), daily_budget_usd=2.0 if how == "start" else 1.0
    ) as services:
        if how == "retry":
            await waits(services, job_id)
            rows(superuser_conninfo, _LATE)
            # As if it were the next day, of which nobody has told the service.
            rows(superuser_conninfo, "UPDATE usage_ledger SET day = day - 1 RETURNING 1")
            reply = await services.extraction.RetryJob(
                extraction_service_pb2.RetryJobRequest(
                    filter=extraction_service_pb2.RetryFilter(reasons=["BUDGET_EXHAUSTED"])
                )
            )
            assert reply.retried == 1
        # Well before the tenant's jobs would be looked at again by themselves.
        job = await ended(services, job_id, within=120)
        assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), job.error
