"""Embeddings charged to the tenant's budget (B14): of memories by hand, and of queries.

A call without budget left stores its memories without vectors, which are back-filled. Embeddings
are charged after the write, when the user is known, and also if the write fails. Queries are
counted by the retrieval service, which knows no prices.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from hitherto_extraction.budget import Budget, BudgetSpent
from hitherto_extraction.pipeline.embedding_loop import EmbeddedBatch, embed_or_leave
from hitherto_extraction.prices import Charge, Prices
from hitherto_extraction.storage import ledger, usage
from hitherto_shared.database import faults
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.curation")

SAVING = "memory-saving"
IMPORT = "memory-import"
CORRECTION = "memory-correction"
_JOBS = {SAVING: UUID(int=1), IMPORT: UUID(int=2), CORRECTION: UUID(int=3)}
"""The job ids in the ledger for calls without a job."""
_SECONDS = 5.0
SEARCH = "search"
"""The kind under which the ledger records queries."""
_QUERY_JOB = UUID(int=4)
_QUERY_SECONDS = 30.0

Payer = TypeVar("Payer", bound=Hashable)


def shared_out(
    batch: EmbeddedBatch[Any], sizes: Counter[Payer], model: str, prices: Prices
) -> dict[Payer, Charge]:
    """The cost of a call divided among the users of its texts, in proportion.

    The call itself is counted once, for the first user.
    """
    calls, tokens, size = batch.calls, batch.tokens, sizes.total()
    charges: dict[Payer, Charge] = {}
    for payer, part in sizes.items():
        share = round(tokens * part / size) if size else 0
        tokens, size = tokens - share, size - part
        charges[payer] = prices.embedding_charge(model, calls, share)
        calls = 0
    return charges


async def affords(connection: Connection, budget: Budget, tenant_id: str, kind: str) -> bool:
    """Whether the tenant may spend on work of this kind now."""
    try:
        await budget.require(connection, tenant_id, kind)
    except BudgetSpent as error:
        logger.info("vectors postponed: %s", error)
        return False
    return True


@dataclass(eq=False)
class ChargedEmbedder:
    """Computes them. The database role is hitherto_write."""

    database: Database
    embedder: Embedder
    prices: Prices
    budget: Budget

    async def embed(
        self, texts: Sequence[tuple[Scope, str]], kind: str, *, seconds: float
    ) -> tuple[EmbeddedBatch[str], dict[Scope, Charge]]:
        """The vectors of texts of one tenant, in one call before their transactions, and its cost.

        There are none after `seconds`, or if there is no budget for them.
        """
        if not texts or not await self._may_embed(texts[0][0].tenant_id, kind):
            return EmbeddedBatch(self.embedder.name), {}
        made = await embed_or_leave(self.embedder, (text for _, text in texts), timeout=seconds)
        sizes: Counter[Scope] = Counter()
        for scope, text in texts:
            sizes[scope] += len(text)
        return made, shared_out(made, sizes, made.model, self.prices) if made.calls else {}

    async def _may_embed(self, tenant_id: str, kind: str) -> bool:
        if self.embedder.offline or not self.budget.limits(kind):
            return True
        return await self.database.run(
            lambda connection: affords(connection, self.budget, tenant_id, kind),
            timeout=_SECONDS,
            repeatable=True,
        )

    async def settle(self, kind: str, charges: Mapping[Scope, Charge]) -> None:
        """Charge what was spent; does not wait for an unreachable database."""
        if not charges:
            return

        async def work(connection: Connection) -> None:
            # Users are locked in one order, whatever the order of the texts.
            for scope in sorted(charges, key=lambda each: each.user_id):
                payer = await ledger.payer(connection.of(scope))
                await ledger.charge(payer, _JOBS[kind], kind, [charges[scope]])

        with faults.Tolerated(logger, "cannot charge the cost of vectors"):
            await self.database.transact(work, timeout=_SECONDS)


async def charge_queries(database: Database, prices: Prices) -> None:
    """Charge the queries counted since the last run, to the tenants concerned.

    The database role is hitherto_maintenance.
    """

    async def work(connection: Connection) -> None:
        for tenant_id, model, calls, tokens in await usage.take_questions(connection):
            charge = prices.embedding_charge(model, calls, tokens)
            await ledger.charge_tenant(connection, tenant_id, _QUERY_JOB, SEARCH, [charge])

    await database.transact(work, timeout=_QUERY_SECONDS)
