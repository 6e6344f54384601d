"""A change of embedding model (C7): START, STATUS, SWITCH, ROLLBACK, reads right throughout."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import psycopg
import pytest

from hitherto.v1 import (
    job_pb2,
    maintenance_service_pb2,
    memory_pb2,
    search_pb2,
)
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import change, save
from tests.e2e.learning import echo, ended, learn, rows, talk
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING
from tests.e2e.sessions import refusal_of
from tests.scripted_model import ScriptedModel, StatusFault
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")

WORDS = (
    "apples ripen in autumn",
    "bridges rust near salt",
    "dragons guard old gold",
    "engines need clean oil",
)
TEXTS = 3 * len(WORDS)
"""Memories, messages and summaries, of each as many as there are words."""
LARGE: dict[str, Any] = {"model": "text-embedding-3-large", "dimensions": 96}
pb = maintenance_service_pb2


async def step(services: Services, phase: Any, **fields: Any) -> pb.ReembedResponse:
    return await services.maintenance.Reembed(pb.ReembedRequest(phase=phase, **fields))


async def moved_to(services: Services, model: str, dimensions: int) -> None:
    started = await step(services, pb.REEMBED_PHASE_START, model=model, dimensions=dimensions)
    job = await ended(services, started.job.id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error


async def found_by(services: Services, word: str) -> tuple[list[str], int, str]:
    """What a search finds, how the semantic leg ended, and why."""
    answer = await ask(services, "SearchMemories", query=word, limit=1)
    (leg,) = [leg for leg in answer.legs if leg.name == "semantic"]
    return [hit.memory.content for hit in answer.results], leg.state, leg.reason


async def right(services: Services) -> None:
    """Every memory is found by its own words, with the semantic leg."""
    for word in WORDS:
        async with asyncio.timeout(180):
            while True:
                contents, state, _ = await found_by(services, word)
                if state == search_pb2.LEG_STATE_RAN:
                    break
                await asyncio.sleep(0.05)
        assert [word in content for content in contents] == [True]


@pytest.fixture
async def taught(modelled: Services) -> Services:
    modelled.model.script = echo
    await learn(modelled, *(talk(words, conversation=words) for words in WORDS))
    return modelled


async def test_from_start_to_switch_and_back(taught: Services, superuser_conninfo: str) -> None:
    """C7 whole: another model with another number of dimensions."""
    await right(taught)
    first = await step(taught, pb.REEMBED_PHASE_STATUS)
    assert (first.active_model, first.active_dimensions) == ("text-embedding-3-small", 64)
    assert not first.target_model
    assert not first.HasField("job")
    # What never has a vector is not waited for.
    never = {"message_no": 9, "message_id": "never", "embedding_state": "none", "lexical_no": 999}
    made = f"jsonb_populate_record(m, '{json.dumps(never)}')"
    insert = f"INSERT INTO hitherto.messages SELECT ({made}).* FROM hitherto.messages AS m LIMIT 1"
    assert rows(superuser_conninfo, f"{insert} RETURNING 1")

    started = await step(taught, pb.REEMBED_PHASE_START, **LARGE)
    assert (started.target_model, started.target_dimensions) == ("text-embedding-3-large", 96)
    job = await ended(taught, started.job.id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED
    assert job.result.counts["embedded"] == TEXTS
    # One for each kind of text.
    assert job.result.usage.embedding_calls == 3
    await right(taught)
    filled = await step(taught, pb.REEMBED_PHASE_STATUS)
    assert (filled.active_model, filled.embedded_count, filled.pending_count) == (
        "text-embedding-3-small",
        TEXTS,
        0,
    )

    switched = await step(taught, pb.REEMBED_PHASE_SWITCH)
    assert (switched.active_model, switched.target_model) == ("text-embedding-3-large", "")
    await right(taught)
    await learn(taught, talk("fireworks end the summer", conversation="later"))
    assert "fireworks" in (await found_by(taught, "fireworks end the summer"))[0][0]

    back = await step(taught, pb.REEMBED_PHASE_ROLLBACK)
    assert back.active_model == "text-embedding-3-small"
    await right(taught)
    # What was learnt meanwhile is found by its words until it has a vector of the old model.
    assert "fireworks" in (await found_by(taught, "fireworks end the summer"))[0][0]
    refusal = await refusal_of(step(taught, pb.REEMBED_PHASE_ROLLBACK))
    assert refusal.reason == "REEMBEDDING_NOT_READY"
    without = "SELECT 1 FROM hitherto.memories WHERE embedding_state <> 'stored'"
    await eventually(lambda: not rows(superuser_conninfo, without), seconds=180)
    assert rows(
        superuser_conninfo,
        "SELECT count(DISTINCT memory_id) FROM hitherto.memory_embeddings"
        " WHERE model = 'text-embedding-3-small'",
    ) == [(len(WORDS) + 1,)]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": ""}, "model"),
    ({"model": "some-model", "dimensions": 7}, "dimensions"),
    ({"model": "text-embedding-3-large", "dimensions": 4001}, "dimensions"),
    ({"model": "text-embedding-3-large", "dimensions": -1}, "dimensions"),
    ({"model": "text-embedding-3-small", "dimensions": 64}, "model"),
    ({"model": "nobody-knows-its-size"}, "model"),
    ({"model": "onnx:somewhere"}, "model"),
]


async def test_refusals_new_words_and_long_counts_beside_a_change(
    taught: Services, superuser_conninfo: str
) -> None:
    await what_cannot_be_started_or_switched_to(taught, taught.model)
    await words_that_change_are_embedded_anew(taught, superuser_conninfo)
    await nobody_waits_while_texts_are_counted(taught, superuser_conninfo)


async def what_cannot_be_started_or_switched_to(taught: Services, model: ScriptedModel) -> None:
    """INVALID_ARGUMENT names the field and nothing changes; REEMBEDDING_NOT_READY says how many
    texts still lack a vector. Reads stay as they were."""
    for fields, field in WRONG:
        refusal = await refusal_of(step(taught, pb.REEMBED_PHASE_START, **fields))
        assert list(refusal.fields) == [field], fields
    refusal = await refusal_of(step(taught, pb.REEMBED_PHASE_UNSPECIFIED))
    assert list(refusal.fields) == ["phase"]
    assert not (await step(taught, pb.REEMBED_PHASE_STATUS)).target_model
    refusal = await refusal_of(step(taught, pb.REEMBED_PHASE_SWITCH))
    assert refusal.reason == "REEMBEDDING_NOT_READY"
    model.always(StatusFault(503), endpoint="embeddings")
    one = await step(taught, pb.REEMBED_PHASE_START, **LARGE)
    # Safe to retry: the job that is under way is returned.
    two = await step(taught, pb.REEMBED_PHASE_START, **LARGE)
    assert one.job.id == two.job.id
    refusal = await refusal_of(step(taught, pb.REEMBED_PHASE_SWITCH))
    assert refusal.reason == "REEMBEDDING_NOT_READY"
    assert int(refusal.metadata["pending_count"]) == TEXTS
    status = await step(taught, pb.REEMBED_PHASE_STATUS)
    assert status.active_model == "text-embedding-3-small"
    # B5: the back-fill is a job like any other.
    listed = await ask(taught, "ListJobs", user_id="", kinds=["reembedding"])
    assert [job.id for job in listed.jobs] == [one.job.id]
    model.always(None, endpoint="embeddings")
    assert (await ended(taught, one.job.id)).state == job_pb2.JOB_STATE_SUCCEEDED


async def words_that_change_are_embedded_anew(taught: Services, superuser_conninfo: str) -> None:
    """A vector of an earlier wording does not count as one (row 35's kin)."""
    (memory_id,) = rows(
        superuser_conninfo,
        "UPDATE hitherto.memories SET content = 'giraffes sleep standing', version = 2,"
        " text_version = 2 WHERE content ~ 'apples' RETURNING memory_id",
    )[0]
    status = await step(taught, pb.REEMBED_PHASE_STATUS)
    assert (status.embedded_count, status.pending_count) == (TEXTS - 1, 1)
    await moved_to(taught, "text-embedding-3-large", 96)
    assert rows(
        superuser_conninfo,
        "SELECT text_version FROM hitherto.memory_embeddings"
        f" WHERE model = 'text-embedding-3-large' AND memory_id = '{memory_id}'",
    ) == [(2,)]


_NOT_COUNTED = "LOCK TABLE hitherto.document_chunks IN ACCESS EXCLUSIVE MODE"
"""Stands for millions of texts to count."""


_COUNTING = """
SELECT 1 FROM pg_locks WHERE relation = 'hitherto.document_chunks'::regclass AND NOT granted
"""


async def nobody_waits_while_texts_are_counted(taught: Services, superuser_conninfo: str) -> None:
    """A start is done by then. Whoever stores vectors locks the rows of their models against
    changes, so that a switch counts without a lock."""
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as other:
        await other.execute(_NOT_COUNTED)
        started = await step(taught, pb.REEMBED_PHASE_START, **LARGE)
        assert (started.target_model, started.target_dimensions) == ("text-embedding-3-large", 96)
        assert (started.embedded_count, started.pending_count) == (0, 0)
        await save(taught, "I own a red bicycle")
        # This one is asked for the numbers.
        with pytest.raises(grpc.aio.AioRpcError):
            await step(taught, pb.REEMBED_PHASE_STATUS)
    job = await ended(taught, started.job.id)
    assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as other:
        await other.execute(_NOT_COUNTED)
        switching = asyncio.ensure_future(step(taught, pb.REEMBED_PHASE_SWITCH))
        await eventually(lambda: bool(rows(superuser_conninfo, _COUNTING)))
        await other.execute("SELECT 1 FROM hitherto.embedding_models FOR KEY SHARE NOWAIT")
    # Refused if the lock was held for longer than Postgres lets it wait.
    await asyncio.gather(switching, return_exceptions=True)


async def test_the_offline_vectors_give_way_on_purpose(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """Configuration that names another model than the active one changes nothing by itself on a
    database of one's own: the services go on with the old one, and Reembed moves."""
    async with start_services() as offline:
        await learn(offline, talk("My favourite tea is jasmine tea."))
    async with start_services(model) as modelled:
        status = await step(modelled, pb.REEMBED_PHASE_STATUS)
        assert status.active_model.startswith("offline")
        answer = await ask(modelled, "SearchMemories", query="jasmine tea")
        assert len(answer.results) == 1
        assert not answer.degraded
        await moved_to(modelled, "text-embedding-3-small", 64)
        switched = await step(modelled, pb.REEMBED_PHASE_SWITCH)
        assert switched.active_model == "text-embedding-3-small"


async def test_h3_sealed_memories_get_vectors_of_the_new_model(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """By the sweep, which has the key; and what is clear beside them by the job, as ever."""
    made = "SELECT model, dimensions FROM hitherto.sealed_embeddings ORDER BY dimensions"
    small, large = ("text-embedding-3-small", 64), ("text-embedding-3-large", 96)
    async with start_services(model, **ENCRYPTING) as services:
        await choose(services, encrypt_sensitive=True)
        words = "Mắc bệnh tiểu đường từ nhỏ"
        await save(services, words, type=memory_pb2.MEMORY_TYPE_PERSONAL)
        await save(services, "apples ripen in autumn")
        await eventually(lambda: rows(services.conninfo, made) == [small])
        await moved_to(services, *large)
        await step(services, pb.REEMBED_PHASE_SWITCH)
        await eventually(lambda: rows(services.conninfo, made) == [small, large])
        found, state, _ = await found_by(services, words)
        assert (found, state) == ([words], search_pb2.LEG_STATE_RAN)
        left = "SELECT 1 FROM hitherto.users WHERE to_seal > 0"
        await eventually(lambda: not rows(services.conninfo, left))
        # As if no sweep had run for a long time after the switch.
        change(
            services.conninfo,
            "WITH gone AS (DELETE FROM hitherto.sealed_embeddings WHERE model = %(model)s)"
            " UPDATE hitherto.embedding_models SET activated_at = now() - interval '1 day'"
            " WHERE model = %(model)s",
            model=large[0],
        )
        await eventually(lambda: rows(services.conninfo, made) == [small, large])
