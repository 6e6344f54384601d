"""The job of kind `reembedding`: gives every text a vector of the target model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hitherto_extraction.budget import Budget
from hitherto_extraction.pipeline.embedding_loop import BATCH, SECONDS, EmbeddedBatch, embed_next
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.prices import Prices
from hitherto_extraction.provider.guarded import GuardedEmbedder
from hitherto_extraction.queue import attempts, claims
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.reembedding import phases
from hitherto_extraction.storage import ledger, reembedding
from hitherto_extraction.storage.corpora import vectors
from hitherto_extraction.storage.corpora.corpus import EmbeddableText, EmbeddedCorpus
from hitherto_shared.circuit_breaker import CircuitBreaker
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.active_embedder import registered_length
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.model_api import ModelUnavailable

_SWITCH_SECONDS = len(vectors.CORPORA) * SECONDS
"""For counting all texts, and for marking those without a vector: as for the last look at each."""


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
        result = Result.of(held.result).with_counts({"embedded": 0})
        # An earlier attempt's are asked for again.
        result = replace(result, counts={**result.counts, "refused": 0})
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

        async def charge(connection: Connection, made: EmbeddedBatch[EmbeddableText]) -> None:
            nonlocal result
            spent = [self.prices.embedding_charge(made.model, made.calls, made.tokens)]
            await ledger.charge_tenant(connection, held.tenant_id, held.job_id, held.kind, spent)
            result = result.with_charges(spent)
            await attempts.record_spending(connection, held, result.stored())

        async def keep(connection: Connection, made: EmbeddedBatch[EmbeddableText]) -> None:
            nonlocal result
            length = await registered_length(connection, made.model)
            await vectors.write(connection, corpus, made.vectors, model=made.model, length=length)
            result = result.with_counts(
                {"embedded": len(made.vectors), "refused": len(made.refused)}
            )
            await claims.record_progress(
                connection, held, done_to=0, result=result.stored(), finished=False
            )

        while texts := await embed_next(self.database, embedder, find, keep, charge=charge):
            pass
        return result

    async def _end(self, held: Claim, result: Result) -> None:
        model, left = str(held.params["model"]), 0
        switches = bool(held.params.get("switch"))
        if switches:
            _, pending = await self.database.run(
                lambda connection: reembedding.count(connection, model),
                timeout=_SWITCH_SECONDS,
                repeatable=True,
            )
            left = pending - result.counts["refused"]

        async def work(connection: Connection) -> None:
            if switches:
                await phases.switch_to(connection, model, left=left)
            await claims.finish(connection, held, result.stored())

        await self.database.transact(work, timeout=_SWITCH_SECONDS)
