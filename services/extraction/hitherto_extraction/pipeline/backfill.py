"""Back-fills vectors after an embedder outage, and indexes messages that no job has indexed.

Messages and summaries without index entries come first (`backlog`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from hitherto_extraction.budget import Budget
from hitherto_extraction.pipeline.backlog import Backlog
from hitherto_extraction.pipeline.embedding_charges import affords, shared_out
from hitherto_extraction.pipeline.embedding_loop import BATCH, PATIENCE, EmbeddedBatch, embed_next
from hitherto_extraction.prices import Prices, load_prices
from hitherto_extraction.storage import ledger, reembedding
from hitherto_extraction.storage.corpora import vectors
from hitherto_extraction.storage.corpora.corpus import EmbeddableText, EmbeddedCorpus
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.model_api import ModelError
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.backfill")

KIND = "reembedding"
NO_JOB = UUID(int=0)
"""The job id in the ledger for work outside jobs."""
_SECONDS = 30.0


class Backfill:
    """Embeds waiting texts, the oldest first. The database role is hitherto_maintenance."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        prices: Prices | None = None,
        *,
        message_vectors: bool = True,
        budget: Budget | None = None,
    ) -> None:
        """Embed with `embedder`, at `prices` or the shipped ones, within the `budget`.

        Without `message_vectors`, messages that no job has indexed are found by their words only.
        """
        self._backlog = Backlog(database, message_vectors=message_vectors)
        self._database = database
        self._embedder = embedder
        self._prices = prices or load_prices(None)
        self._budget = budget or Budget()

    async def run(self) -> int:
        """Index and embed one batch of waiting texts; returns how many are settled.

        A text that the embedder refuses while it accepts others is given up: it is found by its
        words only, and does not block others.
        """
        done = await self._backlog.run()
        await self._database.run(reembedding.await_recent, timeout=_SECONDS)
        for corpus in vectors.CORPORA:
            done += await self._fill(corpus)
        return done

    async def _fill(self, corpus: EmbeddedCorpus) -> int:
        done = 0

        async def find(connection: Connection) -> Sequence[EmbeddableText]:
            return await self._waiting(connection, corpus)

        async def keep(connection: Connection, made: EmbeddedBatch[EmbeddableText]) -> None:
            nonlocal done
            refused = made.refused if made.vectors else []
            done = await vectors.settle(
                connection, corpus, made.vectors, model=made.model, state="stored"
            ) + await vectors.settle(connection, corpus, refused, model=made.model, state="refused")

        try:
            await embed_next(
                self._database,
                self._embedder,
                corpus,
                find,
                keep,
                charge=self._charge,
                patience=PATIENCE,
            )
        except ModelError as error:
            logger.info("vectors are still waiting for the embedder: %s", error)
        return done

    async def _waiting(
        self, connection: Connection, corpus: EmbeddedCorpus
    ) -> Sequence[EmbeddableText]:
        """A batch of waiting texts, without tenants whose budget for today is spent."""
        spent: set[str] = set()
        bounded = self._budget.limits(KIND) and not self._embedder.offline
        while True:
            found = await vectors.find_pending(
                connection, corpus, limit=BATCH, without=sorted(spent)
            )
            tenants = {text.scope.tenant_id for text in found} if bounded else set()
            over = {
                tenant_id
                for tenant_id in tenants
                if not await affords(connection, self._budget, tenant_id, KIND)
            }
            if not over:
                return found
            spent |= over

    async def _charge(self, connection: Connection, made: EmbeddedBatch[EmbeddableText]) -> None:
        """Charge the tenants of the texts, in proportion."""
        sizes: Counter[str] = Counter()
        for text in made.vectors:
            sizes[text.scope.tenant_id] += sum(map(len, text.contents))
        charges = shared_out(made.cost, sizes, made.model, self._prices)
        for tenant_id, charge in sorted(charges.items()):
            payer = Scope(tenant_id, ledger.NOBODY)
            await ledger.charge(connection, payer, NO_JOB, KIND, [charge])
