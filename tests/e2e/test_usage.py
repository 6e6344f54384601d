"""GetUsage and the ledger behind it: requirement B14."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import job_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_extraction.prices import Prices, load_prices
from tests.e2e.conftest import Services, Shared, StartServices, model_settings
from tests.e2e.indexed import backfill
from tests.e2e.learning import ended, learn, rows, submit, talk
from tests.e2e.merging import STYLE, STYLES, say, script
from tests.e2e.methods import METHODS, ask, refused
from tests.e2e.spending import CHAT_COST, DAY, KIND, MODEL, USER, spend, usage
from tests.refusing import refusing
from tests.scripted_model import (
    CONTENT_FAULTS,
    ChatAnswer,
    ScriptedModel,
    StatusFault,
    canary_script,
)
from tests.tenants import Tenant

METHOD = METHODS["MaintenanceService/GetUsage"]


def told(response: pb.GetUsageResponse) -> list[tuple[str, ...]]:
    return [(row.user_id, row.kind, row.day, row.model) for row in response.rows]


async def test_b14_what_two_users_cost_is_told_in_every_grouping(modelled: Services) -> None:
    results = [
        await learn(modelled, talk("remember canary:heron", user=user)) for user in ("ana", "bo")
    ]
    everything = await usage(modelled)
    assert told(everything) == [("", "", "", "")]
    assert everything.rows[0].usage == everything.total
    total = everything.total
    assert (total.llm_calls, total.input_tokens, total.output_tokens) == (2, 200, 40)
    assert total.embedding_calls == 2
    assert total.embedding_tokens == sum(each.usage.embedding_tokens for each in results)
    assert total.cost_usd == pytest.approx(sum(each.usage.cost_usd for each in results), abs=1e-7)
    assert total.cost_usd > 2 * CHAT_COST
    assert everything.spent_today_usd == pytest.approx(total.cost_usd)
    assert everything.daily_budget_usd == 0

    assert told(await usage(modelled, USER)) == [("ana", "", "", ""), ("bo", "", "", "")]
    assert told(await usage(modelled, KIND)) == [("", "memory-extraction", "", "")]
    models = await usage(modelled, MODEL)
    assert told(models) == [
        ("", "", "", "gpt-4o-mini"),
        ("", "", "", "text-embedding-3-small"),
    ]
    assert [row.usage.llm_calls for row in models.rows] == [2, 0]
    assert [row.usage.embedding_calls for row in models.rows] == [0, 2]
    ((today,),) = rows(modelled.conninfo, "SELECT (now() AT TIME ZONE 'UTC')::date::text")
    assert told(await usage(modelled, MODEL, USER, DAY, KIND))[0] == (
        "ana",
        "memory-extraction",
        today,
        "gpt-4o-mini",
    )


async def test_b14_filters_pages_and_order(
    services: Services, shared: Shared, tenant: Tenant
) -> None:
    for days_ago in range(5):
        for user in ("ana", "bo"):
            spend(services.conninfo, 0.25, user=user, days_ago=days_ago)
    spend(shared.superuser_conninfo, 9.0, user="ana", tenant=f"{tenant.tenant_id}-b")
    spend(services.conninfo, 1.0, user="", kind="reembedding", stage="embedding")
    whole = await usage(services, DAY, USER, page_size=200)
    days = [row.day for row in whole.rows]
    assert days == sorted(days, reverse=True)
    assert len(whole.rows) == 11
    assert whole.rows[0].user_id == ""
    assert whole.total.cost_usd == pytest.approx(3.5)
    assert (whole.total.llm_calls, whole.total.embedding_calls) == (10, 1)
    assert whole.spent_today_usd == pytest.approx(1.5)

    found, token = [], ""
    while True:
        page = await usage(services, DAY, USER, page_size=3, page_token=token)
        found += told(page)
        assert page.total == whole.total
        token = page.next_page_token
        if not token:
            break
    assert found == told(whole)

    ana = await usage(services, user_id="ana")
    assert ana.total.cost_usd == pytest.approx(1.25)
    assert ana.total.llm_calls == 5
    kind = await usage(services, USER, kinds=["reembedding"])
    assert [row.usage.embedding_tokens for row in kind.rows] == [10]
    assert await _cost(services, services.conninfo, since="2 days") == pytest.approx(2.5)
    assert await _cost(services, services.conninfo, until="2 days") == pytest.approx(1.5)
    assert await _cost(services, services.conninfo, since="3 days", until="3 days") == (
        pytest.approx(0.5)
    )


async def _cost(services: Services, conninfo: str, **ago: str) -> float:
    """The cost since and until so long ago; the day of either moment counts."""
    bounds = {}
    for name, interval in ago.items():
        ((seconds,),) = rows(
            conninfo, f"SELECT extract(epoch FROM now() - interval '{interval}')::bigint"
        )
        bounds[name] = Timestamp(seconds=seconds)
    return (await usage(services, **bounds)).total.cost_usd


async def test_row_48_before_anything_was_spent_and_bad_questions(services: Services) -> None:
    assert told(await usage(services)) == [("", "", "", "")]
    assert (await usage(services)).rows[0].usage == job_pb2.Usage()
    assert told(await usage(services, USER)) == []
    request = pb.GetUsageRequest(
        kinds=["memory-extraction", "gardening"],
        group_by=[77],  # type: ignore[list-item]
        page_size=-1,
        page_token="x",
    )
    refusal = await refused(services, METHOD, request)
    assert set(refusal.fields) == {"kinds[1]", "group_by[0]", "page_size", "page_token"}
    # A page token is good for its own question only.
    for user in ("ana", "bo"):
        spend(services.conninfo, 1.0, user=user)
    token = (await usage(services, USER, page_size=1)).next_page_token
    assert token
    other = pb.GetUsageRequest(group_by=[USER, DAY], page_size=1, page_token=token)
    assert (await refused(services, METHOD, other)).reason == "INVALID_PAGE_TOKEN"


async def test_b14_what_comes_to_nothing_is_charged_once(
    start_services: StartServices, model: ScriptedModel
) -> None:
    """By kind and user: attempts of no use, what an outage interrupts, and what is refused."""
    garbage = ChatAnswer(CONTENT_FAULTS["not_json"])
    model.script = lambda request: garbage
    async with start_services(model, job_max_retries=1) as services:
        # Two attempts of two calls each.
        job = await ended(services, (await submit(services, talk("hello")))[0])
        assert job.state == job_pb2.JOB_STATE_DEAD
        spent = job.result.usage
        assert (model.calls["chat"], spent.llm_calls) == (4, 4)
        assert (spent.input_tokens, spent.output_tokens) == (400, 80)
        assert spent.cost_usd == pytest.approx(4 * CHAT_COST)
        assert (await usage(services)).total == spent
        told_of = "SELECT calls, job_id::text FROM usage_ledger"
        assert rows(services.conninfo, told_of) == [(4, job.id)]

        # A reply of no use, then an outage, then a retry that succeeds; or a refusal.
        model.script = canary_script
        empty = ChatAnswer(CONTENT_FAULTS["empty"])
        for user, fault, calls in (
            ("bo", StatusFault(503), 2),
            ("cleo", StatusFault(400, code="content_filter"), 1),
        ):
            model.queue(empty, fault)
            said = talk("remember canary:heron", user=user)
            job = await ended(services, (await submit(services, said))[0])
            assert (job.result.usage.llm_calls, job.result.dropped_items) == (calls, 2 - calls)
            one = (await usage(services, user_id=user)).total
            assert (one.llm_calls, one.input_tokens) == (calls, 100 * calls)

        learning = script(lambda request: [])
        model.script = lambda request: garbage if request.consolidation else learning(request)
        for number, style in enumerate(STYLES):
            await say(services, style, user="dee", conversation=f"c{number}")
        begun = await ask(services, "Consolidate", user_id="dee", tag=STYLE)
        job = await ended(services, begun.job.id)
        assert job.error.startswith("MODEL_UNUSABLE")
        assert job.result.usage.llm_calls == 2 * job.attempt
        charged = await usage(services, KIND, USER, kinds=["consolidation"])
        assert told(charged) == [("dee", "consolidation", "", "")]
        assert charged.total == job.result.usage
    kept = rows(
        services.conninfo,
        "SELECT DISTINCT job_id::text FROM unusable_replies WHERE user_id = 'dee'",
    )
    assert kept == [(job.id,)]


async def test_b14_a_reconciliation_that_comes_to_nothing_is_charged(
    start_services: StartServices, model: ScriptedModel
) -> None:
    settings = model_settings(model) | {"reconcile": True}
    async with start_services(**settings, job_max_retries=0) as services:
        await learn(services, talk("remember canary:heron"))
        model.script = lambda request: ChatAnswer(CONTENT_FAULTS["not_json"])
        for dose in (5, 10):
            await ask(services, "SaveMemory", content=f"Ana takes {dose} mg of Ramipril")
        listed = await ask(services, "ListJobs", user_id="", kinds=["reconciliation"])
        asked = [await ended(services, each.id) for each in listed.jobs]
        assert {each.error.partition(":")[0] for each in asked} == {"MODEL_UNUSABLE"}
        calls = [each.result.usage.llm_calls for each in asked]
        # Each call is repeated once. What has something around it is shown again without that; the
        # first memory had nothing if its job was quick.
        assert all(each in (2, 4) for each in calls)
        assert 4 in calls
        assert (await usage(services)).total.llm_calls == 1 + sum(calls)


async def test_b14_vectors_that_are_made_later_are_charged_to_the_tenant(
    modelled: Services, conninfo: str, superuser_conninfo: str
) -> None:
    modelled.model.queue(StatusFault(503), endpoint="embeddings")
    await learn(modelled, talk("remember canary:heron"))
    async with backfill(conninfo, modelled.model) as filling:
        # The service's own sweep may be the one that fills it.
        async with asyncio.timeout(180):
            while rows(superuser_conninfo, "SELECT embedding_state FROM memories") != [("stored",)]:
                await filling.run()
    later = await usage(modelled, KIND, USER, MODEL, kinds=["reembedding"])
    assert told(later) == [("", "reembedding", "", "text-embedding-3-small")]
    assert later.total.embedding_calls >= 1
    assert later.total.embedding_tokens > 0
    assert later.total.cost_usd > 0
    ids = rows(superuser_conninfo, "SELECT job_id FROM usage_ledger WHERE kind = 'reembedding'")
    assert ids == [(UUID(int=0),)]


def test_b14_a_table_with_anything_but_prices_is_refused(tmp_path: Path) -> None:
    """A price of NaN or below 0 would spend no budget, and an infinite one every budget."""
    prices = (
        '"cheap"',
        '{"input": "a"}',
        '{"input": NaN}',
        '{"input": 1, "output": -Infinity}',
        '{"input": -0.1}',
        "[" * 100_000,
    )
    for table in ("", "[]", *(f'{{"m": {price}}}' for price in prices)):
        (tmp_path / "prices.json").write_text(table)
        with pytest.raises(ValueError, match="is not a price table"), refusing(table[:40]):
            load_prices(tmp_path / "prices.json")


def test_b14_a_model_without_a_price_is_free_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prices = Prices({})
    for _ in range(3):
        assert prices.cost("llama", input_tokens=1000) == 0
    assert prices.cost("silent", input_tokens=0) == 0
    assert [record.args for record in caplog.records] == [("llama",)]
