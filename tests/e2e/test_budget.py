"""A daily budget pauses upkeep first and learning last, and loses nothing: requirement B14."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest

from hitherto.v1 import extraction_service_pb2, job_pb2
from hitherto_extraction import worker
from hitherto_extraction.budget import UPKEEP_SHARE
from tests.e2e.conftest import Services, StartServices
from tests.e2e.learning import ended, learn, memories, rows, submit, talk
from tests.e2e.methods import METHODS, ask, refused
from tests.e2e.spending import CHAT_COST, spend, usage
from tests.scripted_model import ScriptedModel, canary_script

_AS_IF_YESTERDAY = "UPDATE usage_ledger SET day = day - 1 RETURNING 1"
_LATE = "UPDATE jobs SET run_after = now() + interval '8 hours' WHERE state = 'failed' RETURNING 1"
_LOOK_NOW = "UPDATE jobs SET run_after = now() WHERE state = 'failed' RETURNING 1"
_WAITS = """
SELECT attempt, error_reason, run_after > now(), run_after <= now() + interval '10 minutes'
FROM jobs WHERE state = 'failed'
"""
PAUSED = (0, "BUDGET_EXHAUSTED", True, True)


async def paused(services: Services, job_id: str) -> job_pb2.Job:
    """The job once it waits for money."""
    async with asyncio.timeout(180):
        async for response in services.extraction.WatchJob(
            extraction_service_pb2.WatchJobRequest(job_id=job_id)
        ):
            if response.job.error.startswith("BUDGET_EXHAUSTED: "):
                assert response.job.state == job_pb2.JOB_STATE_FAILED
                return response.job
    raise AssertionError("the job ended")


@pytest.fixture
def funded(start_services: StartServices, model: ScriptedModel) -> Any:
    """Starts both services with a budget and the scripted model."""

    def start(usd: float, **more: Any) -> AbstractAsyncContextManager[Services]:
        return start_services(model, daily_budget_usd=usd, **more)

    return start


async def test_b14_extraction_stops_at_the_budget_and_goes_on_the_next_day(
    funded: Any, model: ScriptedModel, superuser_conninfo: str
) -> None:
    # What other tenants spend counts for them.
    spend(superuser_conninfo, 5.0, tenant="other")
    async with funded(1.5 * CHAT_COST) as services:
        for user in ("ana", "bo"):
            await learn(services, talk("remember canary:heron", user=user))
        assert (await usage(services)).daily_budget_usd == pytest.approx(1.5 * CHAT_COST)
        (waiting,) = await submit(services, talk("remember canary:ibis", conversation="c2"))
        job = await paused(services, waiting)
        assert "HITHERTO_DAILY_BUDGET_USD" in job.error
        assert (job.attempt, job.result.usage.llm_calls) == (0, 0)
        assert rows(superuser_conninfo, _WAITS) == [PAUSED]
        assert model.calls["chat"] == 2
    # Nothing was lost: the next day it is read.
    rows(superuser_conninfo, _AS_IF_YESTERDAY)
    rows(superuser_conninfo, _LOOK_NOW)
    async with funded(1.5 * CHAT_COST) as services:
        done = await ended(services, waiting)
        assert (done.state, done.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)
        assert len(await memories(services)) == 2
        assert (await usage(services)).spent_today_usd < 1.5 * CHAT_COST


async def test_b14_a_server_that_reports_no_tokens_has_a_budget_too(
    funded: Any, model: ScriptedModel
) -> None:
    model.script = lambda request: replace(canary_script(request), usage=None)
    async with funded(CHAT_COST) as services:
        first = await learn(services, talk("remember canary:heron"))
        assert min(first.usage.input_tokens, first.usage.output_tokens) > 0
        # A long prompt makes it more than a whole call of the other tests costs.
        assert (await usage(services)).spent_today_usd > CHAT_COST
        (waiting,) = await submit(services, talk("remember canary:ibis", conversation="c2"))
        await paused(services, waiting)
        assert model.calls["chat"] == 1


async def test_b14_consolidation_stops_first_and_holds_up_no_extraction(
    funded: Any,
    model: ScriptedModel,
    superuser_conninfo: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At 80 %, also with one worker: older in the queue, and yet nobody waits for it."""
    # The next job is looked at after that time, which is a minute.
    monkeypatch.setattr(worker, "_REST_SECONDS", 2.0)
    spend(superuser_conninfo, float(UPKEEP_SHARE))
    async with funded(1.0, worker_concurrency=1) as services:
        await learn(services, talk("remember canary:heron"))
        everybody = await ask(services, "Consolidate", user_id="")
        await paused(services, everybody.job.id)
        begun = await ask(services, "Consolidate")
        job = await paused(services, begun.job.id)
        assert "80%" in job.error
        assert rows(superuser_conninfo, _WAITS) == [PAUSED] * 2
        for n in range(3):
            await learn(services, talk(f"remember canary:ibis{n}", conversation=f"d{n}"))
        assert (
            rows(superuser_conninfo, "SELECT state FROM jobs WHERE kind = 'consolidation'")
            == [("failed",)] * 2
        )
        # A preview is refused once only learning goes on.
        asked = model.calls["chat"]
        refusal = await refused(
            services,
            METHODS["ExtractionService/PreviewExtraction"],
            extraction_service_pb2.PreviewExtractionRequest(
                transcript=talk("hello", conversation="c9")
            ),
        )
        assert refusal.reason == "BUDGET_EXHAUSTED"
        assert refusal.metadata == {"daily_budget_usd": "1"}
        assert 0 < (refusal.retry_after or 0) <= 86_400
        assert model.calls["chat"] == asked
    rows(superuser_conninfo, _LOOK_NOW)
    # Without a budget, nothing waits.
    spend(superuser_conninfo, 5_000.0)
    async with funded(0.0) as services:
        for each in (begun, everybody):
            assert (await ended(services, each.job.id)).state == job_pb2.JOB_STATE_SUCCEEDED


async def test_b14_a_long_transcript_stops_in_the_middle_and_goes_on_there(
    funded: Any, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """What was read stays read, and is not paid for twice."""
    lines = [f"remember canary:w{n} " + "word " * 60 for n in range(4)]
    async with funded(1.5 * CHAT_COST, batch_tokens=200) as services:
        (job_id,) = await submit(services, talk(*lines))
        job = await paused(services, job_id)
        assert model.calls["chat"] == 2
        assert (job.progress.messages_done, job.result.usage.llm_calls) == (2, 2)
    rows(superuser_conninfo, _LOOK_NOW)
    async with funded(1.0, batch_tokens=200) as services:
        done = await ended(services, job_id)
        assert done.state == job_pb2.JOB_STATE_SUCCEEDED
        assert (model.calls["chat"], done.result.usage.llm_calls) == (4, 4)
        assert len(await memories(services)) == 4
        assert (await usage(services)).total.llm_calls == 4


async def test_b14_raising_the_budget_lets_paused_work_go_on_at_once(
    funded: Any, superuser_conninfo: str
) -> None:
    """Well before the tenant's jobs would be looked at again by themselves; so does RetryJob."""
    spend(superuser_conninfo, 1.0)
    said = [talk("remember canary:heron", user=user) for user in ("ana", "bo", "eve")]
    async with funded(1.0) as services:
        job_ids = await submit(services, *said)
        for job_id in job_ids:
            await paused(services, job_id)
    async with funded(2.0) as services:
        for job_id in job_ids:
            job = await ended(services, job_id, within=120)
            assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), job.error
        spend(superuser_conninfo, 1.0)
        (job_id,) = await submit(services, talk("remember canary:ibis", conversation="c2"))
        await paused(services, job_id)
        rows(superuser_conninfo, _LATE)
        # As if it were the next day, of which nobody has told the service.
        rows(superuser_conninfo, _AS_IF_YESTERDAY)
        only = extraction_service_pb2.RetryFilter(reasons=["BUDGET_EXHAUSTED"])
        assert (await ask(services, "RetryJob", filter=only)).retried == 1
        job = await ended(services, job_id, within=120)
        assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), job.error
