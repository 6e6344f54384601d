"""A model server that refuses the whole installation is no fault of any job: faults.md row 74.

Jobs wait with their attempts kept, one warning names the settings to check, health tells what does
not answer, and all goes on by itself once the server answers. What is about one request (row 25's
neighbours) stays the fault of that request.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hitherto.v1 import extraction_service_pb2 as pb
from hitherto.v1 import job_pb2
from tests.e2e.conftest import Services, StartServices
from tests.e2e.learning import ended, learn, memories, rows, submit, talk
from tests.e2e.methods import ask
from tests.e2e.reconciling import nothing, script
from tests.scripted_model import (
    EmbeddingFault,
    Fault,
    RawReply,
    ScriptedModel,
    StatusFault,
    canary_script,
)
from tests.waiting import eventually

# Services remember what a server refused.
pytestmark = pytest.mark.usefixtures("frequent_sweeps", "apart")

INSTALLATION: dict[str, tuple[Fault, str]] = {
    "400": (StatusFault(400), "MEMORY_EXTRACTION_MODEL"),
    "401": (StatusFault(401, code="invalid_api_key"), "OPENAI_API_KEY"),
    "403": (StatusFault(403), "OPENAI_API_KEY"),
    "404": (StatusFault(404, code="model_not_found"), "MEMORY_EXTRACTION_MODEL"),
    "405": (StatusFault(405), "OPENAI_BASE_URL"),
    "302": (StatusFault(302, headers={"Location": "http://127.0.0.1:9/"}), "OPENAI_BASE_URL"),
    "html": (RawReply.html(), "OPENAI_BASE_URL"),
    "nothing": (RawReply(b""), "OPENAI_BASE_URL"),
    "another API": (RawReply(b'{"status": "ok"}'), "OPENAI_BASE_URL"),
    "compressed unasked": (
        RawReply(b"{}", headers={"Content-Encoding": "br"}),
        "MEMORY_EXTRACTION_MODEL",
    ),
    "401 in a success": (RawReply(b'{"error": {"code": 401}}'), "OPENAI_API_KEY"),
    "an error in a success": (RawReply(b'{"error": {"message": "gone"}}'), "OPENAI_BASE_URL"),
}
MANY_WAIT = {"401", "403", "an error in a success"}
"""With these, more jobs than one wait, and for longer than their attempts would take."""
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
WAITING = [job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING, job_pb2.JOB_STATE_FAILED]


SERVICE_SETTINGS = {"job_max_retries": 1, "reconcile": True}


@pytest.fixture
def services(modelled: Services) -> Services:
    """The module's services; whatever test makes a model refuse waits until it is asked again."""
    return modelled


async def health_of(services: Services, name: str) -> int:
    stub: Any = health_pb2_grpc.HealthStub(services.extraction_channel)
    reply = await stub.Check(health_pb2.HealthCheckRequest(service=name))
    return int(reply.status)


async def jobs_of(services: Services) -> list[job_pb2.Job]:
    return list((await ask(services, "ListJobs", user_id="", page_size=200)).jobs)


async def until_health(services: Services, name: str, status: int) -> None:
    async with asyncio.timeout(180):
        while await health_of(services, name) != status:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def all_told(services: Services, reason: str, count: int) -> list[job_pb2.Job]:
    """The jobs once each of them has said why it waits."""
    async with asyncio.timeout(180):
        while True:
            found = await jobs_of(services)
            assert all(job.state in WAITING for job in found), [job.error for job in found]
            if sum(job.error.startswith(reason) for job in found) == count:
                return found
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("kind", INSTALLATION)
async def test_row_74_jobs_wait_for_the_installation_and_go_on_when_it_is_mended(
    services: Services, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    fault, setting = INSTALLATION[kind]
    services.model.always(fault)
    users = [f"u{n}" for n in range(9 if kind in MANY_WAIT else 1)]
    with caplog.at_level(logging.WARNING, "hitherto"):
        waiting = await submit(services, *(talk("remember canary:heron", user=u) for u in users))
        told = await all_told(services, "MODEL_MISCONFIGURED: ", len(users))
        if kind in MANY_WAIT:
            # Probes go on meanwhile, more of them than a job has attempts.
            async with asyncio.timeout(180):
                await services.model.called(services.model.calls["chat"] + 4)
        assert all(setting in job.error for job in told), told[0].error
        assert all(job.attempt <= 1 for job in told)
        # No model has read anything.
        assert not any(job.result.usage.input_tokens for job in told)
        assert await health_of(services, "") == SERVING
        assert await health_of(services, "embedder") == SERVING
        assert await health_of(services, "language-model") == NOT_SERVING
    warnings = [r.getMessage() for r in caplog.records if r.name == "hitherto.models"]
    assert len(warnings) == 1, warnings
    assert setting in warnings[0]
    assert not [r for r in caplog.records if r.name == "hitherto.worker"]
    # Nobody is asked on behalf of every job.
    assert services.model.calls["chat"] < 60
    services.model.always(None)
    for job_id in waiting:
        job = await ended(services, job_id)
        assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), job.error
        assert job.error == ""
    await until_health(services, "language-model", SERVING)


async def test_row_74_what_waits_goes_on_at_once_however_long_it_would_have_waited(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """One probe at a time; when it is answered, the others do not wait for their own time."""
    model.always(StatusFault(401))
    users = [f"u{n}" for n in range(12)]
    async with start_services(model) as services:
        waiting = await submit(services, *(talk("remember canary:heron", user=u) for u in users))
        await all_told(services, "MODEL_MISCONFIGURED: ", len(users))
        rows(
            services.conninfo,
            "UPDATE jobs SET run_after = now() + interval '1 hour' WHERE state = 'failed'"
            " RETURNING 1",
        )
        model.always(None)
        for job_id in waiting:
            assert (await ended(services, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED


async def test_row_74_a_new_key_takes_effect_at_the_start(
    start_services: StartServices, model: ScriptedModel
) -> None:
    model.always(StatusFault(401))
    async with start_services(model) as services:
        (job_id,) = await submit(services, talk("remember canary:heron"))
        await all_told(services, "MODEL_MISCONFIGURED: ", 1)
    rows(services.conninfo, "UPDATE jobs SET run_after = now() + interval '1 hour' RETURNING 1")
    model.always(None)
    async with start_services(model) as services:
        assert (await ended(services, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED


@pytest.mark.parametrize("status", [400, 403])
async def test_a_refusal_of_one_request_stays_the_fault_of_its_job(
    services: Services, status: int
) -> None:
    """Whoever sends what the server refuses stops nobody else's jobs."""
    services.model.script = lambda request: (
        StatusFault(status, message="this request is refused")
        if any("canary:poison" in line.content for line in request.messages)
        else canary_script(request)
    )
    (poison,) = await submit(services, talk("remember canary:poison", user="eve"))
    job = await ended(services, poison)
    assert (job.state, job.attempt) == (job_pb2.JOB_STATE_DEAD, 2)
    assert job.error.startswith("MODEL_REFUSED: ")
    services.model.queue(StatusFault(400, code="content_filter"))
    await learn(services, talk("remember canary:heron", user="bo"))
    await learn(services, talk("remember canary:heron"))
    assert await health_of(services, "language-model") == SERVING


@pytest.mark.parametrize(
    ("fault", "setting"),
    [
        (StatusFault(401), "OPENAI_API_KEY"),
        (StatusFault(404, code="model_not_found"), "EMBEDDING_MODEL"),
        (RawReply(b'{"embedding": [1.0]}'), "OPENAI_BASE_URL"),
        (RawReply(b"{}", headers={"Content-Encoding": "gzip"}), "OPENAI_BASE_URL"),
        (EmbeddingFault("wrong_dimensions"), "EMBEDDING_DIMENSIONS"),
    ],
    ids=["401", "404", "another API", "compressed", "dimensions"],
)
async def test_row_74_an_embedder_that_refuses_everything_is_told_once_and_made_up_for(
    services: Services, fault: Fault, setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    services.model.always(fault, endpoint="embeddings")
    many = 6 if setting == "OPENAI_API_KEY" else 2
    with caplog.at_level(logging.WARNING, "hitherto.models"):
        for n in range(many):
            await learn(services, talk(f"remember canary:w{n}", conversation=f"c{n}"))
        assert len(await memories(services)) == many
        await until_health(services, "embedder", NOT_SERVING)
    warnings = [r.getMessage() for r in caplog.records if r.name == "hitherto.models"]
    assert len(warnings) == 1, warnings
    assert setting in warnings[0]
    assert rows(services.conninfo, "SELECT count(*) FROM memory_embeddings") == [(0,)]
    services.model.always(None, endpoint="embeddings")
    stored = "SELECT count(*) FROM memory_embeddings"
    await eventually(lambda: rows(services.conninfo, stored) == [(many,)])


# --- RetryJob with a filter ----------------------------------------------------------------------


async def dead(services: Services, model: ScriptedModel, *users: str) -> list[str]:
    """Jobs of these users that died of a refusal of their request."""
    model.script = lambda request: (
        StatusFault(403)
        if any("canary:heron" in line.content for line in request.messages)
        else canary_script(request)
    )
    job_ids = await submit(services, *(talk("remember canary:heron", user=u) for u in users))
    for job_id in job_ids:
        assert (await ended(services, job_id)).state == job_pb2.JOB_STATE_DEAD
    model.script = canary_script
    return job_ids


async def test_retry_takes_a_filter_and_says_how_many(services: Services) -> None:
    job_ids = await dead(services, services.model, "ana", "bo", "eve")

    async def retried(key: str = "", **wanted: object) -> int:
        request = pb.RetryJobRequest(filter=pb.RetryFilter(**wanted), idempotency_key=key)  # type: ignore[arg-type]
        return (await services.extraction.RetryJob(request)).retried

    jobs = {job.id: job for job in await jobs_of(services)}
    newest = jobs[job_ids[-1]].created_at
    assert await retried(reasons=["MODEL_UNUSABLE"]) == 0
    assert await retried(states=[job_pb2.JOB_STATE_CANCELLED]) == 0
    assert await retried(user_id="nobody") == 0
    assert await retried(kinds=["consolidation"]) == 0
    assert await retried(user_id="bo", key="once") == 1
    assert (await ended(services, job_ids[1])).state == job_pb2.JOB_STATE_SUCCEEDED
    assert await retried(user_id="bo", key="once") == 1
    assert await retried(created_after=newest, reasons=["MODEL_REFUSED"]) == 1
    assert await retried(states=[job_pb2.JOB_STATE_DEAD], created_before=newest) == 1
    for job_id in job_ids:
        assert (await ended(services, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
    assert await retried() == 0


async def test_retry_lets_a_waiting_job_go_on_at_once(services: Services) -> None:
    services.model.queue(StatusFault(429, retry_after="900"))
    (job_id,) = await submit(services, talk("remember canary:heron"))
    await all_told(services, "MODEL_UNAVAILABLE: ", 1)
    reply = await ask(services, "RetryJob", job_id=job_id)
    assert (reply.job.id, reply.retried) == (job_id, 1)
    assert (await ended(services, job_id)).state == job_pb2.JOB_STATE_SUCCEEDED


async def test_saved_memories_are_reconciled_later_when_the_installation_refuses(
    services: Services,
) -> None:
    """The sibling of extraction."""
    await learn(services, talk("remember canary:heron"))
    services.model.always(StatusFault(401))
    for dose in (5, 10):
        await ask(services, "SaveMemory", content=f"Ana takes {dose} mg of Ramipril")
    async with asyncio.timeout(180):
        while True:
            job = (await jobs_of(services))[0]
            if job.error.startswith("MODEL_MISCONFIGURED"):
                break
            await asyncio.sleep(0.1)
    services.model.script = script(nothing)
    services.model.always(None)
    assert (await ended(services, job.id)).state == job_pb2.JOB_STATE_SUCCEEDED
