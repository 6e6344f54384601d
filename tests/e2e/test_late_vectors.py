"""Vectors that come late, and vectors of words that no longer count (B10, C7, H3; rows 32, 72).

The embedder is stopped at a bar while it has the words in hand, and they change behind its back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from hitherto.v1 import maintenance_service_pb2
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import change, save
from tests.e2e.learning import echo, ended, learn, memories, replies, rows, talk
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING
from tests.scripted_model import ScriptedModel, StatusFault, text_vector
from tests.scripted_model.answers import memory
from tests.scripted_model.server import Vector
from tests.tenants import tenant_of
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps", "apart")
SERVICE_SETTINGS = ENCRYPTING

SIZE = 64
LARGE = {
    "phase": maintenance_service_pb2.REEMBED_PHASE_START,
    "model": "text-embedding-3-large",
    "dimensions": SIZE,
}
OLD, NEW = "giraffes sleep standing", "dragons guard old gold"
_VECTOR = "SELECT embedding::text FROM hitherto.memory_embeddings WHERE dimensions = {}"
_SOURCES = "SELECT embedding::text FROM hitherto.memory_source_embeddings"
_REFUSED = """
INSERT INTO memories (tenant_id, user_id, memory_id, type, content, confidence, source, origin,
    valid_from, said_at, lexical_no, lexical_length, embedding_state, created_at)
SELECT %(tenant)s, 'eve', gen_random_uuid(), 'fact', 'forbidden ' || n, 'high', 'explicit', 'user',
       now(), now(), 1000 + n, 2, 'pending', now() - interval '1 day'
FROM generate_series(1, 70) AS n
"""
_PENDING = "SELECT 1 FROM hitherto.memories WHERE embedding_state = 'pending'"


class Bar:
    """An embedder that is away while `away`, and stops at calls with `held` in their texts.

    It refuses calls with `refused` in them.
    """

    def __init__(self) -> None:
        self.size = SIZE
        self.away = False
        self.held = self.refused = ""
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def embed(self, texts: list[str]) -> list[Vector] | StatusFault:
        if self.held and any(self.held in text for text in texts):
            self.asked.set()
            await asyncio.wait_for(self.go_on.wait(), 180)
        elif self.away:
            return StatusFault(503)
        elif self.refused and any(self.refused in text for text in texts):
            return StatusFault(400, code="content_filter")
        return [text_vector(text, self.size) for text in texts]

    async def reached(self) -> None:
        await asyncio.wait_for(self.asked.wait(), 180)


@pytest.fixture
def bar() -> Bar:
    return Bar()


@pytest.fixture
def services(modelled: Services, bar: Bar) -> Services:
    """The module's services."""
    modelled.model.script, modelled.model.embed = echo, bar.embed
    return modelled


@pytest.fixture
async def moving(start_services: StartServices, bar: Bar) -> AsyncIterator[Services]:
    """Services of the test's own, for a change of model is everybody's."""
    async with (
        ScriptedModel(echo, dimensions=SIZE, embed=bar.embed) as model,
        start_services(model, **ENCRYPTING) as running,
    ):
        yield running


def near(vector: str, words: str) -> float:
    """The cosine of a stored vector to words."""
    return float(np.array(vector.strip("[]").split(","), np.float32) @ text_vector(words, SIZE))


async def test_texts_that_the_embedder_refuses_keep_nobody_waiting(
    services: Services, bar: Bar
) -> None:
    """More of one user's than a batch holds, all of them older than what another user said."""
    bar.refused = "forbidden"
    bar.away = True
    await save(services, OLD, user="eve")
    change(services.conninfo, _REFUSED, tenant=tenant_of(services.conninfo))
    await save(services, OLD)
    bar.away = False
    await eventually(lambda: not rows(services.conninfo, _PENDING), seconds=180)
    assert rows(
        services.conninfo,
        "SELECT embedding_state, count(*) FROM hitherto.memories GROUP BY 1 ORDER BY 1",
    ) == [("refused", 70), ("stored", 2)]


async def test_h3_words_that_were_sealed_meanwhile_have_no_vector_in_clear(
    services: Services, bar: Bar
) -> None:
    """On and off again while the embedder has the words of the back-fill."""
    await sealed_meanwhile(services, bar, services.conninfo)


async def test_h3_nor_do_they_have_one_of_a_new_model(
    moving: Services, bar: Bar, superuser_conninfo: str
) -> None:
    await sealed_meanwhile(moving, bar, superuser_conninfo, refilled=True)


async def sealed_meanwhile(
    services: Services, bar: Bar, conninfo: str, *, refilled: bool = False
) -> None:
    if not refilled:
        bar.away = True
    await learn(services, talk(OLD))
    bar.held = OLD
    if refilled:
        started = await ask(services, "Reembed", **LARGE)
    await bar.reached()
    bar.away = False
    held, bar.held = bar.held, ""
    assert held == OLD
    await choose(services, encrypt_sensitive=True)
    await eventually(lambda: not rows(conninfo, "SELECT 1 FROM users WHERE to_seal > 0"))
    assert rows(conninfo, "SELECT 1 FROM messages WHERE sealed IS NULL") == []
    await choose(services, encrypt_sensitive=False)
    bar.go_on.set()
    if refilled:
        await ended(services, started.job.id)
    await eventually(lambda: not rows(conninfo, _PENDING), seconds=180)
    for table in ("memory_source_embeddings", "message_embeddings", "summary_embeddings"):
        assert rows(conninfo, f"SELECT 1 FROM hitherto.{table}") == [], table


async def test_row_72_words_that_were_taken_back_have_no_vector(services: Services) -> None:
    """What a source said is no longer near, whether or not it changed the memory's own words."""
    services.model.script = replies(
        {
            "zebra": {"updated_memories": [{"id": "e1", "content": f"{OLD} at night"}]},
            "okapi": [memory(f"{OLD} at night")],
            "giraffe": [memory(OLD)],
        }
    )
    await learn(services, talk("a giraffe", conversation="c1"))
    await learn(services, talk(f"a zebra says {OLD} at night", conversation="c2"))
    await learn(services, talk(f"an okapi says {OLD} at night", conversation="c3"))
    assert [each.content for each in await memories(services)] == [f"{OLD} at night"]
    for conversation, content in (("c3", f"{OLD} at night"), ("c2", OLD)):
        await ask(services, "RollbackSource", conversation_id=conversation)
        assert [each.content for each in await memories(services)] == [content]
        await eventually(lambda: not rows(services.conninfo, _PENDING), seconds=180)
        ((own,),) = rows(services.conninfo, _VECTOR.format(SIZE))
        assert near(own, content) > 0.99
    posted = {term for (term,) in rows(services.conninfo, "SELECT term FROM hitherto.postings")}
    assert "giraff" in posted
    assert not posted & {"okapi", "zebra"}
    ((source,),) = rows(services.conninfo, _SOURCES)
    assert near(source, "a giraffe") > 0.99
