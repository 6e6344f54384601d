"""What is saved by hand and what searching costs is on the bill, within the budget (B14).

Nothing is lost by it; sealed vectors wait for it too.
"""

from __future__ import annotations

import pytest

from hitherto.v1 import search_pb2
from tests.e2e.conftest import Services, StartServices, model_settings
from tests.e2e.curating import save, statement, stream, update
from tests.e2e.learning import rows
from tests.e2e.methods import ask
from tests.e2e.privacy import choose
from tests.e2e.sealing import ENCRYPTING, PERSONAL
from tests.e2e.spending import KIND, USER, spend, usage
from tests.scripted_model import ScriptedModel
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")

_VECTORS = "SELECT count(*) FROM memory_embeddings"
_STATES = "SELECT embedding_state, count(*)::int FROM memories GROUP BY 1 ORDER BY 1"


async def semantic(services: Services, query: str) -> tuple[list[str], int]:
    """What a search finds, and how its semantic leg ended."""
    answer = await ask(services, "SearchMemories", query=query)
    (leg,) = [leg for leg in answer.legs if leg.name == "semantic"]
    return [result.memory.content for result in answer.results], leg.state


async def test_b14_what_is_asked_and_saved_is_on_the_bill_and_made_up_for_without_budget(
    start_services: StartServices, model: ScriptedModel
) -> None:
    async with start_services(model, daily_budget_usd=1.0) as services:
        saved = await save(services, "Ana plays the cello in an orchestra.")
        assert rows(services.conninfo, _VECTORS) == [(1,)]
        # Repeated questions cost nothing.
        before = model.calls["embeddings"]
        for query in ("What does Ana play?", "What does Ana play?", "Does Ana play the cello?"):
            assert (await semantic(services, query))[1] == search_pb2.LEG_STATE_RAN
        assert model.calls["embeddings"] == before + 2

        async def charged() -> bool:
            return (await usage(services, kinds=["search"])).total.embedding_calls == 2

        await eventually(charged, "both questions to be charged", seconds=180)
        by_bo = ("Bo is learning Portuguese.", "Bo drinks no coffee.")
        await stream(services, [statement(each, user="bo") for each in by_bo])
        await update(services, saved.memory.id, content="Ana plays the viola in a quartet.")
        by_hand = ["memory-saving", "memory-import", "memory-correction"]
        told = await usage(services, KIND, USER, kinds=["search", *by_hand])
        calls = {(row.user_id, row.kind): row.usage.embedding_calls for row in told.rows}
        # What a stream brings is embedded as it comes.
        assert calls.pop(("bo", "memory-import")) in (1, 2)
        assert calls == {
            ("", "search"): 2,
            ("ana", "memory-saving"): 1,
            ("ana", "memory-correction"): 1,
        }
        for row in told.rows:
            assert row.usage.embedding_tokens > 0
            assert row.usage.cost_usd > 0
            assert row.usage.llm_calls == 0
        # Without budget, all is stored without a vector; questions are stopped by none.
        spend(services.conninfo, 1.0)
        before = model.calls["embeddings"]
        await save(services, "Ana collects stamps of the moon.")
        texts = ("Ana is afraid of geese.", "Ana bakes rye bread.")
        reply = await stream(services, map(statement, texts))
        assert (reply.saved_count, reply.rejected_count) == (2, 0)
        await update(services, saved.memory.id, content="Ana plays the harp in a trio.")
        assert model.calls["embeddings"] == before
        assert dict(rows(services.conninfo, _STATES)) == {"pending": 4, "stored": 2}
        contents, state = await semantic(services, "geese")
        assert ("Ana is afraid of geese." in contents, state) == (True, search_pb2.LEG_STATE_RAN)
        assert model.calls["embeddings"] == before + 1
    async with start_services(model, daily_budget_usd=5.0) as services:
        await eventually(
            lambda: dict(rows(services.conninfo, _STATES)) == {"stored": 6}, seconds=180
        )
        later = await usage(services, KIND, kinds=["reembedding"])
        assert later.total.embedding_calls >= 1


async def test_b14_the_back_fill_leaves_a_spent_tenant_alone_and_serves_the_others(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """More of the spent tenant's texts wait, and longer, than go into one batch."""
    async with start_services(model, daily_budget_usd=1.0) as services:
        spend(services.conninfo, 1.0)
        many = (f"Ana keeps the note w{n * 7919 % 1009}." for n in range(70))
        await stream(services, map(statement, many))
        assert dict(rows(services.conninfo, _STATES)) == {"pending": 70}
        # One of another tenant that came last, as the database has it.
        rows(
            services.conninfo,
            "WITH u AS (INSERT INTO users SELECT (jsonb_populate_record(x, jsonb_build_object("
            "'tenant_id', 'other'))).* FROM users AS x RETURNING 1),"
            " m AS (SELECT (jsonb_populate_record(x, jsonb_build_object('tenant_id', 'other',"
            " 'created_at', now() + interval '1 minute'))).* FROM memories AS x LIMIT 1)"
            " INSERT INTO memories SELECT * FROM m RETURNING 1",
        )
        other = "SELECT embedding_state FROM memories WHERE tenant_id = 'other'"
        await eventually(lambda: rows(services.conninfo, other) == [("stored",)], seconds=180)
        ours = "SELECT DISTINCT embedding_state FROM memories WHERE tenant_id = 'default'"
        assert rows(services.conninfo, ours) == [("pending",)]


_SEALED_VECTORS = "SELECT count(*) FROM hitherto.sealed_embeddings"


async def test_b14_vectors_of_sealed_memories_wait_for_the_budget(
    start_services: StartServices, model: ScriptedModel
) -> None:
    settings = {**model_settings(model), **ENCRYPTING}
    async with start_services(**settings, daily_budget_usd=1.0) as services:
        await choose(services, encrypt_sensitive=True)
        spend(services.conninfo, 1.0)
        before = model.calls["embeddings"]
        await save(services, "Ana takes zolpidem", type=PERSONAL)
        # Ana's turn is over once the sweep has sealed what Bo has in clear.
        await save(services, "Bo takes valerian", type=PERSONAL, user="bo")
        await choose(services, user="bo", encrypt_sensitive=True)
        await eventually(
            lambda: (
                not rows(services.conninfo, "SELECT 1 FROM hitherto.memories WHERE sealed IS NULL")
            ),
            seconds=180,
        )
        assert model.calls["embeddings"] == before
        assert rows(services.conninfo, _SEALED_VECTORS) == [(0,)]
    async with start_services(**settings, daily_budget_usd=5.0):
        await eventually(lambda: rows(services.conninfo, _SEALED_VECTORS) == [(2,)], seconds=180)
