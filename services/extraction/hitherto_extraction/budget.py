"""A tenant's daily budget (B14): what is left, and which work has to wait.

A day is a UTC day of the database's clock. Upkeep and previews stop once `UPKEEP_SHARE` of the
budget is spent, which reserves the rest for learning. Nothing is lost: jobs wait, and memories
saved by hand are stored without a vector. A call that has begun is finished and charged, so a day
may cost more than its budget by one call for each running job.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal

from hitherto_extraction.storage import usage
from hitherto_shared import metrics
from hitherto_shared.database.pool import Connection, Database

UPKEEP_SHARE = Decimal("0.8")
"""The share of a budget after which only learning continues."""

_LEARNING = "memory-extraction document-ingestion memory-saving memory-import memory-correction"
_UPKEEP = "consolidation reconciliation reembedding preview"
SHARES: Mapping[str, Decimal] = {
    **dict.fromkeys(_LEARNING.split(), Decimal(1)),
    **dict.fromkeys(_UPKEEP.split(), UPKEEP_SHARE),
}
"""The share of a budget up to which each kind of work continues.

Searches cost too and always continue; their cost leaves less for these."""

_ROWS_A_SECOND = 10_000.0
_LONGEST_SECONDS = 10.0
"""Upper limit of the time for which a sum over many rows of the ledger is cached."""

_CHECK_SECONDS = 10.0
_MEASURE_SECONDS = 10.0
"""Time limit for summing up the spending of all tenants."""


class BudgetSpent(Exception):
    """No budget is left for this kind of work today. The text is for the tenant's operator."""

    def __init__(self, message: str, *, daily_usd: Decimal, seconds_left: float) -> None:
        super().__init__(message)
        self.daily_usd = daily_usd
        self.seconds_left = seconds_left


class Budget:
    """The daily budget of every tenant in US dollars; 0 means none."""

    def __init__(self, daily_usd: float = 0.0) -> None:
        self.daily_usd = Decimal(str(daily_usd))
        self._known: dict[str, tuple[usage.SpendingToday, float]] = {}

    def limits(self, kind: str) -> bool:
        """Whether work of this kind may have to wait."""
        return self.daily_usd > 0 and kind in SHARES

    async def require(self, connection: Connection, tenant_id: str, kind: str) -> None:
        """Raise `BudgetSpent` unless the tenant may spend on work of this kind now."""
        if not self.limits(kind):
            return
        today = await self._today(connection, tenant_id)
        share = SHARES[kind]
        if today.usd >= self.daily_usd * share:
            of = "" if share == 1 else f", and {kind} stops at {share:.0%}"
            raise BudgetSpent(
                f"{_usd(today.usd)} of today's {_usd(self.daily_usd)} are spent{of}; work "
                "resumes after midnight UTC, or with a higher HITHERTO_DAILY_BUDGET_USD",
                daily_usd=self.daily_usd,
                seconds_left=today.seconds_left,
            )

    async def check(self, database: Database, tenant_id: str, kind: str) -> None:
        """`require` outside a transaction; asks the database only if there is a budget."""
        if self.limits(kind):
            await database.run(
                lambda connection: self.require(connection, tenant_id, kind),
                timeout=_CHECK_SECONDS,
                repeatable=True,
            )

    async def _today(self, connection: Connection, tenant_id: str) -> usage.SpendingToday:
        known = self._known.get(tenant_id)
        now = time.monotonic()
        if known is not None and now < known[1]:
            return known[0]
        today = await usage.spent_today(connection, tenant_id)
        holds = min(today.rows / _ROWS_A_SECOND, _LONGEST_SECONDS, today.seconds_left)
        self._known[tenant_id] = (today, now + holds)
        return today


async def measure_budgets(database: Database, daily_usd: float) -> None:
    """Write what is left of the tenants' budgets into the metrics.

    The role is hitherto_maintenance.
    """
    spent = await database.run(
        usage.spent_today_by_tenant, timeout=_MEASURE_SECONDS, repeatable=True
    )
    daily = Decimal(str(daily_usd))
    if metrics.tenants_are_labelled():
        for tenant_id, usd in spent.items():
            metrics.BUDGET_LEFT_USD.labels(tenant_id).set(float(daily - usd))
    else:
        most = max(spent.values(), default=Decimal(0))
        metrics.BUDGET_LEFT_USD.labels("").set(float(daily - most))


def _usd(amount: Decimal) -> str:
    return f"${amount.normalize():f}"
