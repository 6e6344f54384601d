"""Back-fills vectors after an embedder outage, and indexes messages that no job has indexed.

Messages and summaries without index entries come first (`backlog`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, TypeVar
from uuid import UUID

from hitherto_extraction.budget import Budget
from hitherto_extraction.pipeline.backlog import Backlog
from hitherto_extraction.pipeline.embedding_charges import affords, shared_out
from hitherto_extraction.prices import Prices, load_prices
from hitherto_extraction.storage import (
    chunks,
    ledger,
    memories,
    message_passages,
    pending_vectors,
    reembedding,
    summary_index,
    users,
)
from hitherto_extraction.storage.chunks import PendingChunk
from hitherto_extraction.storage.message_passages import MessageWords
from hitherto_extraction.storage.pending_vectors import Pending
from hitherto_extraction.storage.summary_index import SummaryWords
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.protocol import Embedder, EmbeddingBatch, Vector
from hitherto_shared.model_api import ModelError, ModelUnavailable
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.backfill")

Waiting = Pending | PendingChunk | MessageWords | SummaryWords
Found = TypeVar("Found", bound=Waiting)

KIND = "reembedding"
NO_JOB = UUID(int=0)
"""The job id in the ledger for work outside jobs."""
_BATCH = 64
_SECONDS = 30.0
_PATIENCE = 3
"""Number of consecutive refusals, without a success, after which the embedder itself is considered
at fault."""


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

        A vector is written only if the memory still has the words it was computed from. A text that
        the embedder refuses while it accepts others is given up: it is found by its words only, and
        does not block others.
        """
        return (
            await self._backlog.run()
            + await self._memories()
            + await self._chunks()
            + await self._messages()
            + await self._summaries()
        )

    async def _memories(self) -> int:
        async def find(connection: Connection, **limits: Any) -> list[Pending]:
            await reembedding.await_recent(connection)
            return await pending_vectors.find(connection, **limits)

        waiting = await self._waiting(find)
        if not waiting:
            return 0
        # Its present name: the active model may change during the call.
        model = self._embedder.name
        vectors = await self._vectors(waiting)

        async def work(connection: Connection) -> int:
            done = 0
            for item in waiting:
                if item.memory_id not in vectors:
                    continue
                found = vectors[item.memory_id]
                state = "stored" if found else "refused"
                async with connection.transaction():
                    await users.lock_all(connection, [Scope(item.tenant_id, item.user_id)])
                    if await pending_vectors.settle(connection, item, model=model, state=state):
                        await self._write(connection, item, model, found)
                        done += 1
            return done

        return await self._database.run(work, timeout=_SECONDS)

    async def _chunks(self) -> int:
        waiting = await self._waiting(chunks.find_pending_chunks)
        if not waiting:
            return 0
        model = self._embedder.name
        vectors = await self._vectors(waiting)

        async def work(connection: Connection) -> int:
            for item in waiting:
                if item.chunk_id not in vectors:
                    continue
                found = vectors[item.chunk_id]
                scope = Scope(item.tenant_id, item.user_id)
                async with connection.transaction():
                    await users.lock_all(connection, [scope])
                    if found:
                        await chunks.write_vectors(
                            connection, scope, model, {item.chunk_id: found[0]}
                        )
                    else:
                        await chunks.settle_refused(connection, item)
            return len(vectors)

        return await self._database.run(work, timeout=_SECONDS)

    async def _messages(self) -> int:
        return await self._passages(
            message_passages.find_pending, message_passages.write_vectors, message_passages.settle
        )

    async def _summaries(self) -> int:
        return await self._passages(
            summary_index.find_pending, summary_index.write_vectors, summary_index.settle
        )

    async def _passages(
        self,
        find: Callable[..., Awaitable[Sequence[MessageWords | SummaryWords]]],
        write: Callable[..., Awaitable[None]],
        settle: Callable[..., Awaitable[int]],
    ) -> int:
        waiting = await self._waiting(find)
        if not waiting:
            return 0
        model = self._embedder.name
        vectors = await self._vectors(waiting)
        found = {text_id: those[0] for text_id, those in vectors.items() if those}
        refused = [text_id for text_id, those in vectors.items() if not those]

        async def work(connection: Connection) -> int:
            async with connection.transaction():
                await users.lock_all(connection, [Scope(*text_id[:2]) for text_id in found])
                await write(connection, found, model=model)
                stored = await settle(connection, found, model=model, state="stored")
                return stored + await settle(connection, refused, model=model, state="refused")

        return await self._database.run(work, timeout=_SECONDS)

    async def _waiting(self, find: Callable[..., Awaitable[Sequence[Found]]]) -> Sequence[Found]:
        """A batch of waiting texts, without tenants whose budget for today is spent."""
        spent: set[str] = set()
        bounded = self._budget.limits(KIND) and not self._embedder.offline

        async def read(connection: Connection) -> Sequence[Found]:
            while True:
                found = await find(connection, limit=_BATCH, without=sorted(spent))
                tenants = {item.tenant_id for item in found} if bounded else set()
                over = {
                    tenant_id
                    for tenant_id in tenants
                    if not await affords(connection, self._budget, tenant_id, KIND)
                }
                if not over:
                    return found
                spent.update(over)

        return await self._database.run(read, timeout=_SECONDS)

    async def _vectors(self, waiting: Sequence[Waiting]) -> dict[Any, list[Vector]]:
        """The vectors of each item's texts; none for a refused one."""
        try:
            return await self._embed(waiting)
        except ModelUnavailable as error:
            logger.info("vectors are still waiting for the embedder: %s", error)
            return {}
        except ModelError as error:
            logger.info("the batch was refused; embedding each text separately: %s", error)
        found: dict[Hashable, list[Vector]] = {}
        refused: list[Hashable] = []
        for item in waiting:
            try:
                found.update(await self._embed([item]))
            except ModelUnavailable:
                break
            except ModelError:
                refused.append(item.text_id)
            if not found and len(refused) == _PATIENCE:
                # The texts are not at fault: everything is refused.
                return {}
        if found:
            logger.warning("the embedder refuses %d text(s)", len(refused))
            found.update({text_id: [] for text_id in refused})
        return found

    async def _embed(self, items: Sequence[Waiting]) -> dict[Hashable, list[Vector]]:
        model = self._embedder.name
        embedding = await self._embedder.embed([text for item in items for text in item.texts])
        await self._charge(model, items, embedding)
        vectors = iter(embedding.vectors)
        return {item.text_id: [next(vectors) for _ in item.texts] for item in items}

    async def _charge(
        self, model: str, items: Sequence[Waiting], embedding: EmbeddingBatch
    ) -> None:
        """Charge a call to the tenants of its texts, in proportion."""
        sizes: Counter[str] = Counter()
        for item in items:
            sizes[item.tenant_id] += sum(map(len, item.texts))
        charges = shared_out(embedding, sizes, model, self._prices)

        async def work(connection: Connection) -> None:
            for tenant_id, charge in charges.items():
                payer = Scope(tenant_id, ledger.NOBODY)
                await ledger.charge(connection, payer, NO_JOB, KIND, [charge])

        await self._database.run(work, timeout=_SECONDS)

    async def _write(
        self, connection: Connection, item: Pending, model: str, vectors: Sequence[Vector]
    ) -> None:
        if not vectors:
            return
        scope = Scope(item.tenant_id, item.user_id)
        await memories.write_vectors(
            connection, scope, [(item.memory_id, item.status, vectors[0])], model=model
        )
        state = await users.read_user(connection, scope)
        # The source words may have been sealed since they were read.
        if len(vectors) > 1 and not (state is not None and state.encrypts):
            await memories.write_source_vectors(
                connection, scope, [(item.memory_id, vectors[1])], model=model
            )
