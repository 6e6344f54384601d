"""Vectors for memories that were stored during an outage of the embedder."""

from __future__ import annotations

import logging
from collections import defaultdict

from recollect_extraction.storage import memories, pending_vectors
from recollect_extraction.storage.pending_vectors import Pending
from recollect_shared.database.pool import Connection, Database
from recollect_shared.embeddings.protocol import Embedder
from recollect_shared.model_api import ModelError
from recollect_shared.models import Scope

logger = logging.getLogger("recollect.backfill")

_BATCH = 64
_SECONDS = 30.0


class Backfill:
    """Embeds what waits, oldest first. The database's role is recollect_maintenance."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self._embedder = embedder

    async def run(self) -> int:
        """Embed one batch; how many memories got their vectors.

        A vector is written only if the memory still has the words it was made from.
        """
        waiting = await self._database.run(
            lambda connection: pending_vectors.find(connection, limit=_BATCH), timeout=_SECONDS
        )
        if not waiting:
            return 0
        texts = [item.content for item in waiting]
        sources = [item for item in waiting if item.source_text]
        try:
            embedding = await self._embedder.embed(
                [*texts, *(item.source_text for item in sources)]
            )
        except ModelError as error:
            logger.info("vectors still wait for the embedder: %s", error)
            return 0
        vectors = defaultdict(list)
        for item, vector in zip([*waiting, *sources], embedding.vectors, strict=True):
            vectors[item.memory_id].append(vector)

        async def work(connection: Connection) -> int:
            done = 0
            for item in waiting:
                async with connection.transaction():
                    if await pending_vectors.settle(connection, item):
                        await self._write(connection, item, vectors[item.memory_id])
                        done += 1
            return done

        return await self._database.run(work, timeout=_SECONDS)

    async def _write(self, connection: Connection, item: Pending, vectors: list) -> None:  # type: ignore[type-arg]
        scope = Scope(item.tenant_id, item.user_id)
        await memories.write_vector(
            connection,
            scope,
            item.memory_id,
            model=self._embedder.name,
            status=item.status,
            vector=vectors[0],
        )
        if len(vectors) > 1:
            await memories.write_source_vector(
                connection, scope, item.memory_id, model=self._embedder.name, vector=vectors[1]
            )
