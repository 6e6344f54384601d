"""Charges the embedded queries that the retrieval service has counted (B14); it knows no prices."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from hitherto_extraction.prices import Prices
from hitherto_extraction.storage import ledger, usage
from hitherto_extraction.storage.ledger import Charge
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.models import Scope

SEARCH = "search"
"""The kind under which the ledger records queries."""
_JOB = UUID(int=4)
_SECONDS = 30.0


class PaidQuestions:
    """Moves counts to the ledger. The database role is hitherto_maintenance."""

    def __init__(self, database: Database, prices: Prices) -> None:
        self._database = database
        self._prices = prices

    async def run(self) -> None:
        """Charge what was counted since the last run, to the tenants concerned."""
        await self._database.run(self._charge, timeout=_SECONDS)

    async def _charge(self, connection: Connection) -> None:
        async with connection.transaction():
            for tenant_id, model, calls, tokens in await usage.take_questions(connection):
                cost: Decimal = self._prices.cost(model, input_tokens=tokens)
                charge = Charge("embedding", model, calls, tokens, 0, cost)
                payer = Scope(tenant_id, ledger.NOBODY)
                await ledger.charge(connection, payer, _JOB, SEARCH, [charge])
