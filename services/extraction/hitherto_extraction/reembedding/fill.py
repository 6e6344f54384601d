"""The job of kind `reembedding`: gives every text a vector of the target model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hitherto_extraction.budget import Budget
from hitherto_extraction.pipeline.embedding_loop import BATCH, SECONDS, EmbeddedBatch, embed_next
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.prices import Prices
from hitherto_extraction.provider.guarded import GuardedEmbedder
from hitherto_extraction.queue import claims
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.reembedding import phases
from hitherto_extraction.storage import ledger
from hitherto_extraction.storage.corpora import vectors
from hitherto_extraction.storage.corpora.corpus import EmbeddableText, EmbeddedCorpus
from hitherto_shared.circuit_breaker import CircuitBreaker
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.active_embedder import registered_length
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.model_api import ModelUnavailable


@dataclass(frozen=True, slots=True)
class Fill:
    """Runs the job. The database role is hitherto_maintenance."""

    database: Database
    embedders: Embedders
    prices: Prices
    budget: Budget

    async def run(self, held: Claim) -> None:
        """Embed texts without a vector, batch by batch.

        Each batch is committed, so that a crash repeats one at most.

        Raises:
            ClaimLost: The claim was lost; nothing was written after that.
            ModelUnavailable: The model is unreachable; the job waits.
            ModelError: The model embeds no text, not even a harmless one.
            BudgetSpent: The tenant's budget does not allow for the next batch.
        """
        model, dimensions = str(held.params["model"]), int(held.params["dimensions"])
        found = self.embedders.find(model, dimensions)
        if found is None:
            raise ModelUnavailable(f"this service is not configured for the model {model}")
        embedder = GuardedEmbedder(found, CircuitBreaker("the embedder of the new model"))
        result = Result.of(held.result)
        result = result.with_counts({"embedded": 0, "refused": 0})
        for corpus in vectors.CORPORA:
            result = await self._fill(held, embedder, corpus, result)
        await self._end(held, result)

    async def _fill(
        self, held: Claim, embedder: Embedder, corpus: EmbeddedCorpus, result: Result
    ) -> Result:
        texts: Sequence[EmbeddableText] = ()

        async def find(connection: Connection) -> Sequence[EmbeddableText]:
            found = await vectors.find_without(
                connection,
                corpus,
                embedder.name,
                after=texts[-1].key if texts else None,
                limit=BATCH,
            )
            if found:
                await self.budget.require(connection, held.tenant_id, held.kind)
            return found

        async def keep(connection: Connection, made: EmbeddedBatch[EmbeddableText]) -> None:
            nonlocal result
            length = await registered_length(connection, made.model)
            await vectors.write(connection, corpus, made.vectors, model=made.model, length=length)
            charge = self.prices.embedding_charge(made.model, made.calls, made.tokens)
            await ledger.charge_tenant(connection, held.tenant_id, held.job_id, held.kind, [charge])
            result = result.with_charges([charge]).with_counts(
                {"embedded": len(made.vectors), "refused": len(made.refused)}
            )
            await claims.record_progress(
                connection, held, done_to=0, result=result.stored(), finished=False
            )

        while texts := await embed_next(self.database, embedder, find, keep):
            pass
        return result

    async def _end(self, held: Claim, result: Result) -> None:
        async def work(connection: Connection) -> None:
            await claims.hold(connection, held)
            await claims.finish(connection, held, result.stored())
            if held.params.get("switch"):
                await phases.switch(connection)

        await self.database.transact(work, timeout=SECONDS)
