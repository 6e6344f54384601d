"""The price of tokens: a table of models, shipped with the service and replaceable by a file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from pathlib import Path

from hitherto_shared.model_api import ModelUsage
from hitherto_shared.private_file import named_by, open_regular

logger = logging.getLogger("hitherto.prices")

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input: Decimal
    output: Decimal


@dataclass(frozen=True, slots=True)
class Charge:
    """The usage of one stage of a job."""

    stage: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal


class Prices:
    """Looks up models by name.

    A dated variant (`gpt-4o-2024-08-06`) costs as much as its base, and so does one that a gateway
    names with its vendor (`openai/gpt-4o`). The price of the `usual` language model, if there is
    one, counts where a reply names its model in an unknown way.
    """

    def __init__(self, table: dict[str, Price], usual: str = "") -> None:
        self._table = table
        self._usual = usual
        self._unknown: set[str] = set()

    def require(self, model: str, setting: str) -> None:
        """Check that a model has a price, without which it would count against no budget.

        Raises:
            ValueError: It has none; the message names the variables to set.
        """
        if self._price(model) is None:
            raise ValueError(
                f"HITHERTO_DAILY_BUDGET_USD is set, but the price of {model} ({setting}) is "
                "unknown, so that it would never be spent: add the model to HITHERTO_PRICES_FILE, "
                "with prices of 0 if it is free"
            )

    def _price(self, model: str) -> Price | None:
        for name in dict.fromkeys((model, model.rpartition("/")[2])):
            if name in self._table:
                return self._table[name]
            for known in sorted(self._table, key=len, reverse=True):
                if name.startswith(f"{known}-"):
                    return self._table[known]
        return None

    def cost(self, model: str, *, input_tokens: int, output_tokens: int = 0) -> Decimal:
        """US dollars for a call; 0 for models without a price, such as local ones.

        A model without a price is logged once, if it counts tokens at all.
        """
        price = self._price(model)
        if price is None:
            if (input_tokens or output_tokens) and model not in self._unknown:
                self._unknown.add(model)
                logger.warning(
                    "the price of %s is unknown: it counts as free and against no budget; "
                    "set it in HITHERTO_PRICES_FILE",
                    model,
                )
            return Decimal(0)
        return (price.input * input_tokens + price.output * output_tokens) / _MILLION

    def charge(self, stage: str, usage: ModelUsage) -> Charge:
        """What calls of a language model cost, for the ledger."""
        read, written = usage.input_tokens, usage.output_tokens
        priced = usage.model if self._price(usage.model) or not self._usual else self._usual
        cost = self.cost(priced, input_tokens=read, output_tokens=written)
        return Charge(stage, usage.model, usage.calls, read, written, cost)

    def wasted(self, stage: str, spent: Iterable[ModelUsage]) -> list[Charge]:
        """What calls with unusable replies cost."""
        return [self.charge(stage, each) for each in spent]

    def embedding_charge(self, model: str, calls: int, tokens: int) -> Charge:
        """What calls of an embedder cost, for the ledger."""
        return Charge("embedding", model, calls, tokens, 0, self.cost(model, input_tokens=tokens))


def load_prices(path: Path | None, usual: str = "") -> Prices:
    """The table in `path`, or the shipped one; a ValueError says why it is none."""
    if path is not None:
        with named_by("HITHERTO_PRICES_FILE"), open_regular(path) as file:
            content = file.read()
    else:
        content = (resources.files("hitherto_extraction") / "prices.json").read_bytes()
    try:
        rows = json.loads(content)
        return Prices(
            {
                name: Price(_price(row["input"]), _price(row.get("output", 0)))
                for name, row in rows.items()
                if not name.startswith("_")
            },
            usual,
        )
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise ValueError(
            f"{path} is not a price table: it must be JSON such as "
            '{"gpt-4o-mini": {"input": 0.15, "output": 0.60}}, in US dollars per million tokens, '
            "none of them negative"
        ) from None


def _price(number: object) -> Decimal:
    """A price; JSON may contain NaN, Infinity and negative numbers, which would void budgets."""
    price = Decimal(str(number))
    if not price.is_finite() or price < 0:
        raise ValueError
    return price
