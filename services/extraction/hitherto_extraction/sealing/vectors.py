"""Computes missing vectors of sealed memories, after an embedder outage or a change of model."""

from __future__ import annotations

import logging
from uuid import UUID

from hitherto_extraction.budget import Budget
from hitherto_extraction.pipeline.backfill import KIND, NO_JOB
from hitherto_extraction.pipeline.embedding_charges import may_embed
from hitherto_extraction.pipeline.embedding_loop import BATCH, SECONDS, EmbeddedBatch, embed
from hitherto_extraction.prices import Prices
from hitherto_extraction.storage import ledger, sealed_memories, users
from hitherto_extraction.storage.sealed_memories import Unembedded
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.encryption.failures import SealBroken
from hitherto_shared.model_api import ModelError
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.sealing")


class SealedVectors:
    """Embeds sealed memories, one user at a time."""

    def __init__(
        self, removal: Database, embedder: Embedder, prices: Prices, budget: Budget | None = None
    ) -> None:
        """Read and write with `removal`, the database with that role, within the `budget`."""
        self._removal = removal
        self._embedder = embedder
        self._prices = prices
        self._budget = budget or Budget()

    async def fill(self, scope: Scope) -> bool:
        """Embed memories without a vector; False if that waits for the embedder or the budget.

        A text that the embedder refuses is given up and found by its words. So is one that the key
        does not open.
        """
        after = UUID(int=0)
        while found := await self._lacking(scope, after):
            after = found[-1].memory_id
            with acting_for(scope.tenant_id):
                affordable = await may_embed(
                    self._removal, self._embedder, self._budget, scope.tenant_id, KIND
                )
            if not affordable:
                return False
            texts = {each: [text] for each in found if (text := _opened(scope, each)) is not None}
            try:
                made = await embed(self._embedder, texts)
            except ModelError as error:
                logger.info("vectors of sealed memories are waiting for the embedder: %s", error)
                return False
            await self._keep(scope, made)
            if made.outage is not None:
                return False
        return True

    async def _lacking(self, scope: Scope, after: UUID) -> list[Unembedded]:
        model = self._embedder.name
        with acting_for(scope.tenant_id):
            return await self._removal.run(
                lambda connection: sealed_memories.without_vector(
                    connection, scope, model, after=after, limit=BATCH
                ),
                timeout=SECONDS,
                repeatable=True,
            )

    async def _keep(self, scope: Scope, made: EmbeddedBatch[Unembedded]) -> None:
        charge = self._prices.embedding_charge(made.model, made.calls, made.tokens)

        async def work(connection: Connection) -> None:
            state = await users.lock_user(connection, scope)
            if state is not None and not state.erased:
                for each, (vector,) in made.vectors.items():
                    await sealed_memories.write_vector(
                        connection,
                        scope,
                        each.memory_id,
                        vector,
                        model=made.model,
                        text_version=each.text_version,
                    )
            await ledger.charge_tenant(connection, scope.tenant_id, NO_JOB, KIND, [charge])

        if made.calls:
            with acting_for(scope.tenant_id):
                await self._removal.transact(work, timeout=SECONDS)


def _opened(scope: Scope, each: Unembedded) -> str | None:
    try:
        return each.content(scope)
    except SealBroken:
        logger.error("cannot open a sealed memory, which gets no vector")
        return None
