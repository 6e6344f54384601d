"""What a change of model must not do: switch while many texts lack vectors, or bend a model."""

from __future__ import annotations

import pytest

from hitherto.v1 import job_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import change
from tests.e2e.learning import echo, ended, learn, talk
from tests.e2e.methods import ask
from tests.e2e.sessions import refusal_of
from tests.e2e.test_reembedding import step
from tests.scripted_model import EmbeddingFault, Fault, RawReply, ScriptedModel
from tests.waiting import eventually

LARGE = "text-embedding-3-large"
_MANY = """
INSERT INTO memories (tenant_id, user_id, memory_id, type, content, confidence, source, origin,
    valid_from, said_at, lexical_no, lexical_length, embedding_state)
SELECT 'default', 'ana', gen_random_uuid(), 'fact', 'fact ' || n, 'high', 'explicit', 'user', now(),
       now(), 1000 + n, 2, 'stored'
FROM generate_series(1, %(many)s) AS n
"""


@pytest.fixture
async def taught(modelled: Services, superuser_conninfo: str) -> Services:
    modelled.model.script = echo
    await learn(modelled, talk("I like tea"))
    return modelled


async def test_c7_a_switch_waits_for_what_came_after_the_back_fill(
    taught: Services, superuser_conninfo: str
) -> None:
    """A back-fill that succeeded is not enough: many texts that came since have no vector."""
    started = await step(taught, pb.REEMBED_PHASE_START, model=LARGE, dimensions=96)
    assert (await ended(taught, started.job.id)).state == job_pb2.JOB_STATE_SUCCEEDED
    # A model keeps its dimensions: vectors of another length would stand beside those.
    refused = await refusal_of(step(taught, pb.REEMBED_PHASE_START, model=LARGE, dimensions=128))
    assert set(refused.fields) == {"dimensions"}
    status = await step(taught, pb.REEMBED_PHASE_STATUS)
    assert (status.target_model, status.target_dimensions) == (LARGE, 96)
    change(superuser_conninfo, _MANY, many=200)
    refused = await refusal_of(step(taught, pb.REEMBED_PHASE_SWITCH))
    assert refused.reason == "REEMBEDDING_NOT_READY"
    assert int(refused.metadata["pending_count"]) >= 200
    status = await step(taught, pb.REEMBED_PHASE_STATUS)
    assert (status.active_model, status.target_model) == ("text-embedding-3-small", LARGE)
    again = await step(taught, pb.REEMBED_PHASE_START, model=LARGE, dimensions=96)
    assert (await ended(taught, again.job.id)).state == job_pb2.JOB_STATE_SUCCEEDED
    switched = await step(taught, pb.REEMBED_PHASE_SWITCH)
    assert switched.active_model == LARGE


async def test_c7_the_active_model_takes_corrected_dimensions_at_the_next_start(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """A mistake at the first start, when everything is stored without a vector."""
    model.script = echo
    model.always(EmbeddingFault("wrong_dimensions"), endpoint="embeddings")
    settings = model_settings(model)
    async with start_services(**{**settings, "embedding_dimensions": 128}) as mistaken:
        await learn(mistaken, talk("I like tea"))
    model.always(None, endpoint="embeddings")
    async with start_services(**settings) as services:
        status = await step(services, pb.REEMBED_PHASE_STATUS)
        assert status.active_dimensions == settings["embedding_dimensions"]
        await until_found(services, "tea")


async def until_found(services: Services, word: str) -> None:
    """Wait until a search finds a memory by its vector."""

    async def by_vector() -> bool:
        results = (await ask(services, "SearchMemories", query=word)).results
        return bool(results) and "semantic" in results[0].matched_legs

    await eventually(by_vector, "a search to find it", seconds=180)


async def test_row_74_a_new_model_that_embeds_nothing_is_not_asked_about_every_text(
    taught: Services, superuser_conninfo: str
) -> None:
    """The job waits with its attempts until the model is corrected, or its dimensions (C7)."""
    change(superuser_conninfo, _MANY, many=64)

    async def started(fault: Fault, dimensions: int) -> str:
        asked = taught.model.calls["embeddings"]
        taught.model.always(fault, endpoint="embeddings")
        begun = await step(taught, pb.REEMBED_PHASE_START, model=LARGE, dimensions=dimensions)
        assert (begun.target_model, begun.target_dimensions) == (LARGE, dimensions)
        errors: list[str] = []

        async def waits() -> bool:
            errors.append((await ask(taught, "GetJob", job_id=begun.job.id)).job.error)
            return bool(errors[-1])

        await eventually(waits, "the job to wait", seconds=180)
        assert errors[-1].startswith("MODEL_MISCONFIGURED: ")
        # The whole batch and a harmless text, in each of a few tries.
        assert taught.model.calls["embeddings"] - asked <= 20
        return str(begun.job.id)

    mistaken = await started(EmbeddingFault("wrong_dimensions"), 128)
    refused = await refusal_of(step(taught, pb.REEMBED_PHASE_START, model=LARGE, dimensions=96))
    assert set(refused.fields) == {"dimensions"}
    assert mistaken in refused.fields["dimensions"]
    await ask(taught, "CancelJob", job_id=mistaken)
    corrected = await started(RawReply(b"{}"), 96)
    taught.model.always(None, endpoint="embeddings")
    job = await ended(taught, corrected)
    assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)
    assert job.result.counts["embedded"] > 64
    switched = await step(taught, pb.REEMBED_PHASE_SWITCH)
    assert (switched.active_model, switched.active_dimensions) == (LARGE, 96)
