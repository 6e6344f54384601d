"""What searching costs is on the bill, and so are sealed vectors, within the budget (B14)."""

from __future__ import annotations

import asyncio

import pytest

from hitherto.v1 import search_pb2
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import save
from tests.e2e.learning import rows
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING, PERSONAL
from tests.e2e.spending import KIND, USER, spend, usage
from tests.scripted_model import ScriptedModel
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")

_SEALED_VECTORS = "SELECT count(*) FROM hitherto.sealed_embeddings"


async def semantic(services: Services, query: str) -> tuple[list[str], int]:
    """What a search finds, and how its semantic leg ended."""
    answer = await ask(services, "SearchMemories", query=query)
    (leg,) = [leg for leg in answer.legs if leg.name == "semantic"]
    return [result.memory.content for result in answer.results], leg.state


async def test_b14_questions_are_on_the_bill_and_repeated_ones_are_not(
    start_services: StartServices, model: ScriptedModel
) -> None:
    async with start_services(**model_settings(model)) as services:
        await save(services, "Ana plays the cello in an orchestra.")
        before = model.calls["embeddings"]
        for query in ("What does Ana play?", "What does Ana play?", "Does Ana play the cello?"):
            assert (await semantic(services, query))[1] == search_pb2.LEG_STATE_RAN
        assert model.calls["embeddings"] == before + 2
        async with asyncio.timeout(180):
            while True:
                told = await usage(services, KIND, USER, kinds=["search"])
                if told.total.embedding_calls == 2:
                    break
                await asyncio.sleep(0.1)
        ((row),) = told.rows
        assert (row.kind, row.user_id, row.usage.llm_calls) == ("search", "", 0)
        assert row.usage.embedding_tokens > 0
        assert row.usage.cost_usd > 0


async def test_b14_a_spent_budget_stops_no_search(
    start_services: StartServices, model: ScriptedModel, superuser_conninfo: str
) -> None:
    async with start_services(**model_settings(model), daily_budget_usd=1.0) as services:
        await save(services, "Ana plays the cello in an orchestra.")
        spend(superuser_conninfo, 2.0)
        found, leg = await semantic(services, "Who is in an orchestra?")
        assert found == ["Ana plays the cello in an orchestra."]
        assert leg == search_pb2.LEG_STATE_RAN


async def test_b14_vectors_of_sealed_memories_wait_for_the_budget(
    start_services: StartServices, model: ScriptedModel, superuser_conninfo: str
) -> None:
    settings = {**model_settings(model), **ENCRYPTING}
    async with start_services(**settings, daily_budget_usd=1.0) as services:
        await choose(services, encrypt_sensitive=True)
        spend(superuser_conninfo, 1.0)
        before = model.calls["embeddings"]
        await save(services, "Ana takes zolpidem", type=PERSONAL)
        # Ana's turn is over once the sweep has sealed what Bo has in clear.
        await save(services, "Bo takes valerian", type=PERSONAL, user="bo")
        await choose(services, user="bo", encrypt_sensitive=True)
        await eventually(
            lambda: (
                not rows(superuser_conninfo, "SELECT 1 FROM hitherto.memories WHERE sealed IS NULL")
            ),
            seconds=180,
        )
        assert model.calls["embeddings"] == before
        assert rows(superuser_conninfo, _SEALED_VECTORS) == [(0,)]
    async with start_services(**settings, daily_budget_usd=5.0):
        await eventually(lambda: rows(superuser_conninfo, _SEALED_VECTORS) == [(2,)], seconds=180)
