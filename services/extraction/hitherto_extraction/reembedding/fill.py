"""The job of kind `reembedding`: gives every text a vector of the target model."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Any

from hitherto_extraction.budget import Budget
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.prices import Prices
from hitherto_extraction.queue import claims
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.reembedding import phases
from hitherto_extraction.storage import (
    ledger,
    message_passages,
    passage_vectors,
    reembedding,
    summary_index,
    users,
)
from hitherto_extraction.storage.ledger import Charge
from hitherto_extraction.storage.passage_vectors import PassageText
from hitherto_extraction.storage.reembedding import TextToEmbed
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.protocol import Embedder, Vector
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.model_api import ModelRefused, ModelUnavailable
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.reembedding")

_BATCH = 64
_SECONDS = 30.0

Lacking = TextToEmbed | PassageText
Found = Sequence[tuple[Any, Vector, Vector | None]]
Find = Callable[..., Awaitable[Sequence[Lacking]]]
Write = Callable[[Connection, str, Found], Awaitable[None]]


class Fill:
    """Runs the job. The database role is hitherto_maintenance."""

    def __init__(
        self,
        database: Database,
        embedders: Embedders,
        prices: Prices,
        budget: Budget | None = None,
    ) -> None:
        self._database = database
        self._embedders = embedders
        self._prices = prices
        self._budget = budget or Budget()

    async def run(self, held: Claim) -> None:
        """Embed texts without a vector, batch by batch.

        Each batch is committed, so that a crash repeats one at most.

        Raises:
            ClaimLost: The claim was lost; nothing was written after that.
            ModelUnavailable: The model is unreachable; the job waits.
            BudgetSpent: The tenant's budget does not allow for the next batch.
        """
        model, dimensions = str(held.params["model"]), int(held.params["dimensions"])
        embedder = self._embedders.find(model, dimensions)
        if embedder is None:
            raise ModelUnavailable(f"this service is not configured for the model {model}")
        result = Result.of(held.result)
        result = result.with_counts({"embedded": 0, "refused": 0})
        kinds: list[tuple[Find, Write, tuple[Any, ...]]] = [
            (reembedding.memories_without, self._write_memories, reembedding.START),
            (reembedding.chunks_without, self._write_chunks, reembedding.START),
            (passage_vectors.messages_without, self._write_messages, passage_vectors.START),
            (passage_vectors.summaries_without, self._write_summaries, passage_vectors.START),
        ]
        for find, write, start in kinds:
            result = await self._fill(held, embedder, find, write, start, result)
        await self._end(held, result)

    async def _fill(
        self,
        held: Claim,
        embedder: Embedder,
        find: Find,
        write: Write,
        after: tuple[Any, ...],
        result: Result,
    ) -> Result:
        while True:
            start = after

            async def read(connection: Connection) -> Sequence[Lacking]:
                found = await find(connection, embedder.name, after=start, limit=_BATCH)  # noqa: B023
                if found:
                    await self._budget.require(connection, held.tenant_id, held.kind)
                return found

            texts = await self._database.run(read, timeout=_SECONDS, repeatable=True)
            if not texts:
                return result
            vectors, charge = await self._embed(embedder, texts)
            result = result.with_charges([charge]).with_counts(
                {"embedded": len(vectors), "refused": len(texts) - len(vectors)}
            )
            result = await self._keep(held, embedder, vectors, write, charge, result)
            after = texts[-1].key

    async def _keep(
        self,
        held: Claim,
        embedder: Embedder,
        vectors: Found,
        write: Write,
        charge: Charge,
        result: Result,
    ) -> Result:
        async def work(connection: Connection) -> None:
            async with connection.transaction():
                await users.lock_all(connection, [Scope(*text.key[:2]) for text, _, _ in vectors])
                await claims.hold(connection, held)
                await write(connection, embedder.name, vectors)
                scope = Scope(held.tenant_id, ledger.NOBODY)
                await ledger.charge(connection, scope, held.job_id, held.kind, [charge])
                await claims.record_progress(
                    connection, held, done_to=0, result=result.stored(), finished=False
                )

        await self._database.run(work, timeout=_SECONDS)
        return result

    @staticmethod
    async def _write_memories(connection: Connection, model: str, vectors: Found) -> None:
        for text, content, source in vectors:
            await reembedding.write_memory(connection, text, model, content)
            if source is not None:
                await reembedding.write_source(connection, text, model, source)

    @staticmethod
    async def _write_chunks(connection: Connection, model: str, vectors: Found) -> None:
        for text, content, _ in vectors:
            await reembedding.write_chunk(connection, text, model, content)

    @staticmethod
    async def _write_messages(connection: Connection, model: str, vectors: Found) -> None:
        found = {text.key: content for text, content, _ in vectors}
        await message_passages.write_vectors(connection, found, model=model)

    @staticmethod
    async def _write_summaries(connection: Connection, model: str, vectors: Found) -> None:
        found = {text.key: content for text, content, _ in vectors}
        await summary_index.write_vectors(connection, found, model=model)

    async def _embed(
        self, embedder: Embedder, texts: Sequence[Lacking]
    ) -> tuple[list[tuple[Lacking, Vector, Vector | None]], Charge]:
        """The vectors of a batch; texts that the model refuses are left out."""
        try:
            return await self._ask(embedder, texts)
        except ModelRefused as error:
            if len(texts) == 1:
                logger.warning("the embedder refuses a text: %s", error)
                return [], Charge("embedding", embedder.name, 1, 0, 0, Decimal(0))
        middle = len(texts) // 2
        first, cost = await self._embed(embedder, texts[:middle])
        second, more = await self._embed(embedder, texts[middle:])
        return first + second, cost.plus(more)

    async def _ask(
        self, embedder: Embedder, texts: Sequence[Lacking]
    ) -> tuple[list[tuple[Lacking, Vector, Vector | None]], Charge]:
        sources = [text for text in texts if text.source_text]
        batch = await embedder.embed(
            [*(text.content for text in texts), *(text.source_text for text in sources)]
        )
        contents = batch.vectors[: len(texts)]
        of_source = {
            text.key: vector
            for text, vector in zip(sources, batch.vectors[len(texts) :], strict=True)
        }
        charge = Charge(
            "embedding",
            embedder.name,
            batch.calls,
            batch.tokens,
            0,
            self._prices.cost(embedder.name, input_tokens=batch.tokens),
        )
        return [
            (text, vector, of_source.get(text.key))
            for text, vector in zip(texts, contents, strict=True)
        ], charge

    async def _end(self, held: Claim, result: Result) -> None:
        async def work(connection: Connection) -> None:
            async with connection.transaction():
                await claims.hold(connection, held)
                await claims.record_progress(
                    connection, held, done_to=0, result=result.stored(), finished=True
                )
                if held.params.get("switch"):
                    await phases.switch(connection)

        await self._database.run(work, timeout=_SECONDS)
