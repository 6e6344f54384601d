"""Vectors for memories that were stored during an outage of the embedder."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from recollect_extraction.storage import memories, pending_vectors, reembedding
from recollect_extraction.storage.pending_vectors import Pending
from recollect_shared.database.pool import Connection, Database
from recollect_shared.embeddings.protocol import Embedder, Vector
from recollect_shared.model_api import ModelError, ModelUnavailable
from recollect_shared.models import Scope

logger = logging.getLogger("recollect.backfill")

_BATCH = 64
_SECONDS = 30.0
_PATIENCE = 3
"""Refusals in a row, and nothing else, after which the embedder itself is held to be at fault."""


class Backfill:
    """Embeds what waits, oldest first. The database's role is recollect_maintenance."""

    def __init__(self, database: Database, embedder: Embedder) -> None:
        self._database = database
        self._embedder = embedder

    async def run(self) -> int:
        """Embed one batch; how many memories are settled.

        A vector is written only if the memory still has the words it was made from. A text that
        the embedder refuses while it takes others is given up: it is found by its words only, and
        does not stand in everybody's way.
        """

        async def find(connection: Connection) -> list[Pending]:
            await reembedding.await_recent(connection)
            return await pending_vectors.find(connection, limit=_BATCH)

        waiting = await self._database.run(find, timeout=_SECONDS)
        if not waiting:
            return 0
        # By its name now: the active model may change while it is asked.
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
                    if await pending_vectors.settle(connection, item, model=model, state=state):
                        await self._write(connection, item, model, found)
                        done += 1
            return done

        return await self._database.run(work, timeout=_SECONDS)

    async def _vectors(self, waiting: Sequence[Pending]) -> dict[UUID, list[Vector]]:
        """The vectors of each memory's content and source words; none for a refused text."""
        try:
            return await self._embed(waiting)
        except ModelUnavailable as error:
            logger.info("vectors still wait for the embedder: %s", error)
            return {}
        except ModelError as error:
            logger.info("the batch was refused, asking for each text alone: %s", error)
        found: dict[UUID, list[Vector]] = {}
        refused: list[UUID] = []
        for item in waiting:
            try:
                found.update(await self._embed([item]))
            except ModelUnavailable:
                break
            except ModelError:
                refused.append(item.memory_id)
            if not found and len(refused) == _PATIENCE:
                # It is not the texts then: everything is refused.
                return {}
        if found:
            logger.warning("%d text(s) are refused by the embedder", len(refused))
            found.update({memory_id: [] for memory_id in refused})
        return found

    async def _embed(self, items: Sequence[Pending]) -> dict[UUID, list[Vector]]:
        sources = [item for item in items if item.source_text]
        texts = [*(item.content for item in items), *(item.source_text for item in sources)]
        embedding = await self._embedder.embed(texts)
        found: defaultdict[UUID, list[Vector]] = defaultdict(list)
        for item, vector in zip([*items, *sources], embedding.vectors, strict=True):
            found[item.memory_id].append(vector)
        return dict(found)

    async def _write(
        self, connection: Connection, item: Pending, model: str, vectors: Sequence[Vector]
    ) -> None:
        if not vectors:
            return
        scope = Scope(item.tenant_id, item.user_id)
        await memories.write_vectors(
            connection, scope, [(item.memory_id, item.status, vectors[0])], model=model
        )
        if len(vectors) > 1:
            await memories.write_source_vectors(
                connection, scope, [(item.memory_id, vectors[1])], model=model
            )
