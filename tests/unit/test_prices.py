"""What calls cost, whatever names a gateway or a server has for the same model."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from hitherto_extraction.budget import Budget
from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.prices import Prices, load_prices
from hitherto_extraction.provider.protocol import Completion
from hitherto_extraction.storage import usage
from hitherto_extraction.wiring.base import prices_for
from hitherto_shared.database.pool import Connection

MINI = Decimal("0.15")


def usd(prices: Prices, model: str) -> Decimal:
    return prices.cost(model, input_tokens=10**6)


def test_a_model_costs_the_same_whatever_stands_around_its_name() -> None:
    for model in [
        "gpt-4o-mini",
        "gpt-4o-mini-2024-07-18",
        "openai/gpt-4o-mini",
    ]:
        assert usd(load_prices(None), model) == MINI


def test_other_models_have_no_price() -> None:
    for model in ["llama3.2", "o/gpt", "openai/gpt-9", ""]:
        assert usd(load_prices(None), model) == 0


def test_an_own_price_of_the_whole_name_comes_first(tmp_path: Path) -> None:
    table = tmp_path / "prices.json"
    table.write_text(json.dumps({"openai/gpt-4o-mini": {"input": 1}, "gpt-4o-mini": {"input": 2}}))

    assert usd(load_prices(table), "openai/gpt-4o-mini") == 1


def test_a_reply_that_names_an_unknown_model_costs_what_was_configured() -> None:
    reply = Completion("", "fp_deployment_7", 1, 10**6, 0)

    assert load_prices(None, "gpt-4o-mini").charge("extraction", reply).cost_usd == MINI
    assert load_prices(None).charge("extraction", reply).cost_usd == 0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"extraction_model": "llama3.2"}, r"llama3\.2 \(MEMORY_EXTRACTION_MODEL\)"),
        ({"embedding_model": "bge-m3"}, r"bge-m3 \(EMBEDDING_MODEL\)"),
    ],
)
def test_a_budget_that_would_never_count_ends_the_start(
    settings: dict[str, Any], told: str, tmp_path: Path
) -> None:
    given = ExtractionSettings(openai_api_key="k", daily_budget_usd=1, **settings)
    with pytest.raises(ValueError, match=f"{told}.*HITHERTO_PRICES_FILE"):
        prices_for(given)

    free = tmp_path / "prices.json"
    names = ("llama3.2", "bge-m3", "gpt-4o-mini", "text-embedding-3-small")
    free.write_text(json.dumps({name: {"input": 0} for name in names}))
    prices_for(given.model_copy(update={"prices_file": free}))
    prices_for(given.model_copy(update={"daily_budget_usd": 0}))
    prices_for(given.model_copy(update={"extractor": "offline", "embedder": "offline"}))


async def test_what_was_spent_is_not_kept_past_midnight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum over many rows is, for some seconds."""
    asked = 0
    left = 3600.0

    async def spent_today(*_: object) -> usage.SpendingToday:
        nonlocal asked
        asked += 1
        return usage.SpendingToday(Decimal(0), rows=1_000_000, seconds_left=left)

    monkeypatch.setattr(usage, "spent_today", spent_today)
    budget, nowhere = Budget(1.0), cast(Connection, None)
    for tenant, times in (("a", 1), ("b", 2)):
        asked = 0
        for _ in range(2):
            await budget.require(nowhere, tenant, "consolidation")
        assert asked == times
        left = 0.0
