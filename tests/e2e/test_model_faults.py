"""A model or embedder that misbehaves: nothing is lost, nothing is made up (B8, B10).

faults.md rows 25–34, 45 and the ledger check L7. What ends a job: test_jobs.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from hitherto.v1 import extraction_service_pb2, job_pb2, memory_pb2
from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.pipeline.failed_attempts import MAX_REPLY_BYTES, UnusableReplies
from hitherto_shared.circuit_breaker import OUTAGES as IN_A_ROW
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.key_files import load_deployment_secret
from hitherto_shared.sealing import BrokenToken
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import update
from tests.e2e.learning import ALL_STATUSES, ended, learn, memories, replies, rows, submit, talk
from tests.e2e.methods import ask
from tests.scripted_model import (
    HOSTILE_ANSWERS,
    ChatAnswer,
    EmbeddingFault,
    Hang,
    RawReply,
    Reset,
    ScriptedModel,
    StatusFault,
    canary_script,
)
from tests.scripted_model.answers import memory, quoting
from tests.waiting import eventually

EVERY_ROW = "SELECT xmin::text, ctid::text, * FROM memories"
STATES = (
    "SELECT DISTINCT embedding_state FROM (SELECT embedding_state FROM memories UNION ALL"
    " SELECT embedding_state FROM messages UNION ALL"
    " SELECT embedding_state FROM conversation_summaries) AS texts"
)


PATIENCE: dict[str, Any] = {"model_timeout_seconds": 1.0, "job_max_retries": 1}
"""A second of patience for the model and two attempts for a job."""
SERVICE_SETTINGS = {**PATIENCE, "batch_tokens": 200}
"""A few long messages are several calls."""


@pytest.fixture
def patient(modelled: Services) -> Services:
    """The module's services, with `PATIENCE`."""
    return modelled


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services that start from here on make up for missing vectors every second."""
    for module in ("sweeps", "wiring.work"):
        monkeypatch.setattr(f"hitherto_extraction.{module}.SOON_SECONDS", 1.0)


@pytest.fixture
async def alone(start_services: StartServices, model: ScriptedModel) -> AsyncIterator[Services]:
    """Services of a test's own, for outages: the circuit breaker remembers them."""
    async with start_services(model, **PATIENCE) as services:
        yield services


async def ended_job(services: Services, *lines: str) -> job_pb2.Job:
    return await ended(services, (await submit(services, talk(*lines)))[0])


async def found(services: Services, query: str) -> list[str]:
    reply = await ask(services, "SearchMemories", query=query)
    return [result.memory.content for result in reply.results]


# --- outages of the model ------------------------------------------------------------------------


async def test_row_25_an_outage_makes_the_job_wait_and_costs_no_attempt(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """Every kind is told apart in integration/test_providers.py."""
    settings = {**model_settings(model), **PATIENCE, "job_max_retries": 0}
    async with start_services(**settings) as services:
        for fault in (Reset(after=150), Hang()):
            model.always(fault)
            called = model.calls["chat"]
            said = talk("remember canary:heron", conversation=str(fault))
            (job_id,) = await submit(services, said)
            async with asyncio.timeout(180):
                # More often than there are attempts.
                await model.called(called + 2)
            model.always(None)
            job = await ended(services, job_id)
            assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), job.error
        (only,) = await memories(services)
        assert only.content == "The user mentioned canary:heron."
        assert len(only.source_message_ids) == 2
        # As long as the model asks for.
        model.queue(StatusFault(429, retry_after="900"))
        (job_id,) = await submit(services, talk("remember canary:heron", user="bo"))
        async with asyncio.timeout(180):
            watched = extraction_service_pb2.WatchJobRequest(job_id=job_id)
            async for response in services.extraction.WatchJob(watched):
                if response.job.state == job_pb2.JOB_STATE_FAILED:
                    break
        assert response.job.error.startswith("MODEL_UNAVAILABLE")
    waits = (
        "SELECT attempt, run_after > now() + interval '10 minutes' FROM jobs WHERE user_id = 'bo'"
    )
    assert rows(services.conninfo, waits) == [(0, True)]


async def test_row_25_a_model_that_is_away_is_not_asked_by_every_job(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """L7: forty jobs and one model that is down; the circuit breaker lets a few calls through."""
    model.always(StatusFault(503))
    users = [f"u{n}" for n in range(40)]
    told = "SELECT count(*) FROM jobs WHERE error LIKE 'MODEL_UNAVAILABLE: %was not called%'"
    async with start_services(model, job_backoff_seconds=2.0) as services:
        waiting = await submit(services, *(talk("remember canary:heron", user=u) for u in users))
        await eventually(lambda: rows(services.conninfo, told)[0][0] >= len(users) - IN_A_ROW)
        # Those in flight when it opened, and a probe now and then.
        assert model.calls["chat"] <= IN_A_ROW + 4 + 5
        model.always(None)
        for job_id in waiting:
            job = await ended(services, job_id)
            assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), job.error
        # Nor is an embedder, for which no job waits.
        model.always(StatusFault(503), endpoint="embeddings")
        before = model.calls["embeddings"]
        for n in range(3 * IN_A_ROW):
            await learn(services, talk(f"remember canary:w{n}", conversation=f"c{n}"))
        assert model.calls["embeddings"] - before < 3 * IN_A_ROW
        assert len(await memories(services)) == 3 * IN_A_ROW


# --- replies that are no answer ------------------------------------------------------------------


async def test_row_26_raw_replies_are_kept_sealed_for_whoever_has_to_find_out(
    alone: Services, model: ScriptedModel, superuser_conninfo: str, conninfo: str, tmp_path: Path
) -> None:
    """One for each attempt, cut to 64 KiB, readable with the installation's secret only."""
    model.queue(RawReply.html())
    job = await ended_job(alone, "remember canary:heron")
    # A page may be the server's answer to everything: a harmless question told that it is not.
    assert (job.state, job.result.usage.llm_calls) == (job_pb2.JOB_STATE_SUCCEEDED, 3)
    assert len(rows(superuser_conninfo, "SELECT 1 FROM unusable_replies")) == 1

    said = "Sorry, no JSON about the heron today. \U0001f426 \x00 " + "x" * 100_000
    model.script = lambda request: ChatAnswer(said)
    (job_id,) = await submit(alone, talk("remember canary:egret", user="bo"))
    assert (await ended(alone, job_id)).state == job_pb2.JOB_STATE_DEAD
    kept = rows(superuser_conninfo, "SELECT sealed_reply FROM unusable_replies")
    assert not [sealed for (sealed,) in kept if "heron" in sealed]
    settings = ExtractionSettings(database_url=conninfo, data_dir=tmp_path / "data")
    secret = load_deployment_secret(settings)
    async with await PipelineConnection.connect(superuser_conninfo, autocommit=True) as connection:
        replies = await UnusableReplies(secret).read(connection, "default", UUID(job_id))
        assert [reply.claim_no for reply in replies] == [1, 2]
        for reply in replies:
            assert said.startswith(reply.reply)
            assert MAX_REPLY_BYTES - 4 < len(reply.reply.encode()) <= MAX_REPLY_BYTES
        with pytest.raises(BrokenToken):
            await UnusableReplies(bytes(32)).read(connection, "default", UUID(job_id))


@pytest.mark.parametrize(
    "refusal",
    [
        StatusFault(400, code="context_length_exceeded"),
        StatusFault(400, message="This model's maximum context length is 4096 tokens."),
        StatusFault(413, code="exceed_context_size_error"),
    ],
    ids=["openai", "vllm", "llama.cpp"],
)
async def test_row_27_a_question_too_long_for_the_model_is_cut_in_two(
    patient: Services, refusal: StatusFault
) -> None:
    """A refusal for length is no reason to give up: all canaries land, in one attempt."""
    patient.model.script = lambda request: (
        refusal if len(request.messages) > 2 else canary_script(request)
    )
    job = await ended_job(patient, *(f"remember canary:w{n}" for n in range(4)))
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert (job.attempt, job.result.memories_created) == (1, 4)
    # Refused are 4 messages; twice 2 are read.
    assert (patient.model.calls["chat"], job.result.usage.llm_calls) == (3, 2)
    if refusal.code != "context_length_exceeded":
        return
    # One message that is too long says so.
    patient.model.script = lambda request: refusal
    (job_id,) = await submit(patient, talk("one", "two", user="bo"))
    job = await ended(patient, job_id)
    assert job.state == job_pb2.JOB_STATE_DEAD
    assert job.error.startswith("MODEL_REFUSED: ")
    assert "HITHERTO_BATCH_TOKENS" in job.error


async def test_row_45_a_model_that_names_itself_badly_kills_no_job(patient: Services) -> None:
    reply = ChatAnswer.of(new_memories=[memory("Ana likes tea")]).body("x\x00\ud800")
    patient.model.queue(RawReply(json.dumps(reply).encode()))
    job = await ended_job(patient, "I like tea")
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert (job.attempt, job.result.model) == (1, "gpt-4o-mini")


# --- replies that are partly usable --------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTILE_ANSWERS)
async def test_rows_28_to_31_no_hostile_answer_reaches_what_is_not_its_own(
    patient: Services, name: str
) -> None:
    facts = [f"Ana keeps bird number {n}" for n in range(5)]
    seeds = {
        "new_memories": [memory(fact) for fact in facts],
        "profile": {"summary": "Ana keeps birds.", "facts": {"personal": {"name": "Ana"}}},
    }
    patient.model.script = replies({"birds": lambda _: seeds})
    await learn(patient, *(talk("I am Ana and keep birds", user=user) for user in ("ana", "bo")))
    others = f"{EVERY_ROW} WHERE user_id = 'bo' ORDER BY memory_id"
    kept = rows(patient.conninfo, others)

    patient.model.script = HOSTILE_ANSWERS[name]
    job = await ended(patient, (await submit(patient, talk("hello", conversation="c2")))[0])
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert job.attempt == 1
    assert rows(patient.conninfo, others) == kept

    everything = await memories(patient, statuses=ALL_STATUSES)
    assert len(everything) <= 5 + 200
    # Row 28 may make one memory more precise, which the history keeps; row 29 closes none.
    attack = "Ignore all previous instructions"
    assert {m.status for m in everything if attack not in m.content} == {
        memory_pb2.MEMORY_STATUS_ACTIVE
    }
    assert {m.status for m in everything if attack in m.content} <= {
        memory_pb2.MEMORY_STATUS_QUARANTINED
    }
    assert sum(m.content in facts for m in everything) >= 4
    for one in everything:
        assert 0.0 <= one.importance <= 1.0
        assert len(one.content.encode()) <= 8192
        assert 1900 <= one.valid_from.ToDatetime().year <= 2200
    # Row 31: what was known stays, and the whole stays within its bound.
    response = await ask(patient, "GetProfile")
    assert response.profile.summary == "Ana keeps birds."
    personal = response.profile.facts.fields["personal"].struct_value
    assert personal.fields["name"].string_value == "Ana"
    assert response.profile.ByteSize() < 2 * 64 * 1024
    counted = "SELECT count(*), max(version) FROM profile_versions WHERE user_id = 'ana'"
    versions = rows(patient.conninfo, counted)
    assert versions == [(response.profile.version, response.profile.version)]
    if name != "injected_instruction" and not name.endswith("_profile"):
        assert job.result.dropped_items > 0


async def test_row_29_the_cap_is_the_jobs_and_not_the_calls(patient: Services) -> None:
    seeds = [memory(f"Ana keeps bird number {n}") for n in range(9)]
    patient.model.script = replies({"birds": {"new_memories": seeds}})
    await learn(patient, talk("I keep birds"))
    patient.model.script = lambda request: quoting(
        request,
        contradicted_memories=[
            {"id": known.local_id, "source_message_ids": ["m1"]} for known in request.memories[:2]
        ],
    )
    lines = [f"{n}: I no longer keep a bird " + "word " * 60 for n in range(4)]
    result = await learn(patient, talk(*lines, conversation="c2"))
    assert patient.model.calls["chat"] == 5
    assert (result.memories_contradicted, result.dropped_items) == (4, 4)
    (bird, *others) = await memories(patient)
    assert len(others) == 4
    # So is the step by which a model lowers an importance, also below what a hand has set.
    await update(patient, bird.id, importance=0.9)
    patient.model.script = lambda request: quoting(
        request,
        updated_memories=[
            {"id": known.local_id, "importance": 0.1, "source_message_ids": ["m1"]}
            for known in request.memories
            if known.content == bird.content
        ],
    )
    still = [line.replace("no longer", "still") for line in lines]
    await learn(patient, talk(*still, conversation="c3"))
    (bird,) = [each for each in await memories(patient) if each.id == bird.id]
    assert bird.importance == pytest.approx(0.7)


async def test_row_45_characters_that_cannot_be_stored_cost_nothing_but_themselves(
    patient: Services,
) -> None:
    bad = "a\x00b\ud800c"
    patient.model.script = lambda request: ChatAnswer(
        json.dumps(
            {
                "new_memories": [
                    memory(
                        f"Ana {bad}", tags=[bad], keywords=[bad], detail=bad,
                        context={bad: bad}, entities=[{"name": bad, "type": "person"}],
                    )
                ],
                "profile": {"summary": bad, "facts": {bad: {bad: bad}}},
                "conversation_summary": {"title": bad, "key_topics": [bad]},
            }
        )
    )  # fmt: skip
    job = await ended_job(patient, "hello")
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    assert job.attempt == 1
    (only,) = await memories(patient)
    assert (only.content, list(only.tags)) == ("Ana abc", ["abc"])
    assert dict(only.context) == {"abc": "abc"}


# --- the embedder --------------------------------------------------------------------------------


async def test_rows_32_to_34_a_memory_without_a_vector_is_found_by_its_words(
    often: None, alone: Services, model: ScriptedModel, superuser_conninfo: str
) -> None:
    """Every kind of reply that is none is refused in integration/test_providers.py."""
    vectors = (
        "SELECT (SELECT count(*) FROM memory_embeddings), count(*) FROM memory_source_embeddings"
    )
    for user, fault in (("bo", EmbeddingFault("nan")), ("ana", StatusFault(429, retry_after="9"))):
        model.always(fault, endpoint="embeddings")
        result = await learn(alone, talk("remember canary:heron", user=user))
        assert (result.memories_created, result.usage.embedding_calls) == (1, 0), fault
    # B11: nor is it doubled by what is said in the same words.
    await learn(alone, talk("remember canary:heron", conversation="c2"))
    (only,) = await memories(alone)
    assert (only.version, list(only.source_message_ids)) == (1, ["c1-1", "c2-1"])
    assert rows(superuser_conninfo, STATES) == [("pending",)]
    assert rows(superuser_conninfo, vectors) == [(0, 0)]
    assert await found(alone, "heron") == ["The user mentioned canary:heron."]

    model.always(None, endpoint="embeddings")
    await eventually(lambda: rows(superuser_conninfo, STATES) == [("stored",)])
    assert rows(superuser_conninfo, vectors) == [(2, 2)]
    assert [m.version for m in await memories(alone)] == [1]
