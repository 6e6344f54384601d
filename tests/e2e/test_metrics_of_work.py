"""What metrics say of charges, erasures, budgets and connections, by default without tenants."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from hitherto_extraction.budget import measure_budgets
from hitherto_shared import metrics
from hitherto_shared.database.connect import OWNER
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.database.pool import Database
from tests.e2e.conftest import Services
from tests.e2e.learning import learn, talk
from tests.e2e.methods import ask
from tests.e2e.spending import CHAT_COST, spend
from tests.tenants import Tenant
from tests.waiting import eventually


def counted(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.fixture
def labelled() -> Iterator[None]:
    """As with HITHERTO_METRICS_TENANTS=true."""
    metrics.label_tenants(True)
    yield
    metrics.label_tenants(False)


async def test_money_and_tokens_are_counted_by_stage(modelled: Services) -> None:
    stage = {"stage": "extraction", "tenant": ""}
    usd = counted("hitherto_charged_usd_total", **stage)
    tokens = counted("hitherto_charged_tokens_total", direction="output", **stage)
    embedded = counted(
        "hitherto_charged_tokens_total", stage="embedding", direction="input", tenant=""
    )
    await learn(modelled, talk("remember canary:heron"))
    # A watcher may learn of the commit before the worker does.
    await eventually(lambda: counted("hitherto_charged_usd_total", **stage) > usd)
    assert counted("hitherto_charged_usd_total", **stage) == pytest.approx(usd + CHAT_COST)
    assert counted("hitherto_charged_tokens_total", direction="output", **stage) == tokens + 20
    assert embedded < counted(
        "hitherto_charged_tokens_total", stage="embedding", direction="input", tenant=""
    )


@pytest.mark.usefixtures("labelled")
async def test_tenants_are_named_if_the_operator_asks_for_it(
    modelled: Services, tenant: Tenant
) -> None:
    await learn(modelled, talk("remember canary:heron"))
    labels = {"stage": "extraction", "tenant": tenant.tenant_id}
    await eventually(lambda: counted("hitherto_charged_usd_total", **labels) > 0)
    assert counted("hitherto_charged_usd_total", **labels) == pytest.approx(CHAT_COST)


async def test_erasures_are_counted_by_what_was_erased(modelled: Services) -> None:
    def erasures() -> list[float]:
        return [
            counted("hitherto_erasures_total", subject=each) for each in ("user", "conversation")
        ]

    users, conversations = erasures()
    await learn(modelled, talk("remember canary:heron"))
    await ask(modelled, "DeleteConversation", conversation_id="c1")
    assert erasures() == [users, conversations + 1]
    for _ in range(2):  # the second call erases nothing
        await ask(modelled, "EraseUser")
        assert erasures() == [users + 1, conversations + 1]


async def test_what_is_left_of_budgets(conninfo: str, superuser_conninfo: str) -> None:
    for tenant, usd in (("cheap", 0.25), ("dear", 1.5)):
        spend(superuser_conninfo, usd, tenant=tenant)
        spend(superuser_conninfo, 100.0, days_ago=1, tenant=tenant)
    spend(superuser_conninfo, 100.0, days_ago=1, tenant="yesterday")
    database = Database(conninfo, "hitherto_maintenance", application="test")
    await database.open()
    try:
        await measure_budgets(database, 2.0)
        assert counted("hitherto_budget_left_usd", tenant="") == 0.5
        metrics.label_tenants(True)
        await measure_budgets(database, 2.0)
    finally:
        metrics.label_tenants(False)
        await database.close()
    left = [counted("hitherto_budget_left_usd", tenant=t) for t in ("cheap", "dear", "yesterday")]
    assert left == [1.75, 0.5, 2.0]


async def test_connections_in_use_are_counted_by_role(conninfo: str) -> None:
    # No pool of the services that others share has this one.
    role = {"role": OWNER}
    name = "hitherto_database_connections"
    before = counted(f"{name}_limit", **role), counted(f"{name}_lent", **role)
    database = Database(conninfo, OWNER, application="test", max_size=3)
    await database.open()
    async with database.connection():
        now = counted(f"{name}_limit", **role), counted(f"{name}_lent", **role)
        assert now == (before[0] + 3, before[1] + 1)
    assert counted(f"{name}_lent", **role) == before[1]
    await database.close()
    assert counted(f"{name}_limit", **role) == before[0]


async def test_what_is_rolled_back_has_no_effect(superuser_conninfo: str) -> None:
    connection = await PipelineConnection.connect(
        superuser_conninfo, autocommit=True, prepare_threshold=None
    )
    seen: list[str] = []

    async def fail() -> None:
        async with connection.transaction():
            connection.once_committed(lambda: seen.append("never"))
            await connection.execute("SELECT 1 / %s", [0])

    async with connection:
        connection.once_committed(lambda: seen.append("at once"))
        with pytest.raises(psycopg.errors.DivisionByZero):
            await fail()
        async with connection.transaction():
            connection.once_committed(lambda: seen.append("first"))
            with pytest.raises(psycopg.errors.DivisionByZero):
                await fail()
            async with connection.transaction(force_rollback=True):
                connection.once_committed(lambda: seen.append("never"))
            async with connection.transaction():
                connection.once_committed(lambda: seen.append("second"))
            await connection.execute("SELECT %s", [1])
            assert seen == ["at once"]
    assert seen == ["at once", "first", "second"]
