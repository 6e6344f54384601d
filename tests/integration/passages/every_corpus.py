"""One text of each corpus, all in the same state, and embedders that something happens behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from hitherto_extraction.budget import Budget
from hitherto_extraction.pipeline.backfill import Backfill, Backlog
from hitherto_extraction.prices import load_prices
from hitherto_extraction.queue import claims
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.reembedding import phases
from hitherto_extraction.reembedding.fill import Fill
from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.protocol import EmbeddingBatch
from hitherto_shared.embeddings.registry import Embedders
from hitherto_shared.identifiers import uuid7
from tests.integration.upkeep.past import conversation, message
from tests.integration.upkeep.stage import TENANT, Stage

NEW = "offline-hash-new"
"""A model to move to, with the offline model's vectors."""

TABLES = {
    "memories": ("memories", "memory_embeddings"),
    "documents": ("document_chunks", "document_chunk_embeddings"),
    "messages": ("messages", "message_embeddings"),
    "summaries": ("conversation_summaries", "summary_embeddings"),
}
"""The table of each corpus, and that of its vectors."""

Hook = Callable[[str], Awaitable[None]]


async def one_of_each(stage: Stage, words: str = "plain", number: int = 1) -> None:
    """Store a text of each corpus, `memories plain` and so on, all of which wait for a vector."""
    await stage.memory(f"memories {words}")
    await stage.rows(
        "UPDATE memories AS m SET embedding_state = 'pending' WHERE embedding_state = 'stored'"
        " AND NOT EXISTS (SELECT FROM memory_embeddings AS e WHERE e.memory_id = m.memory_id)"
    )
    document = {"document_id": uuid7()}
    handed = {"source_type": "files", "source_id": words, "source_created_at": "0 s"}
    await stage.put("documents", **document, **handed, content_hash=bytes(32))
    place = {"chunk_id": uuid7(), "position": 0, "lexical_no": number, "lexical_length": 2}
    await stage.put("document_chunks", **document, **place, content=f"documents {words}")
    await conversation(stage, words)
    await message(stage, number, f"messages {words}", name=words)
    summary = {"title": f"summaries {words}", "covers_to": 1}
    await stage.put("conversation_summaries", conversation_id=words, **summary)
    while await Backlog(stage.maintenance, message_vectors=True).run():
        pass


async def states(stage: Stage) -> dict[str, list[str]]:
    """The states of the texts of each corpus, in alphabetical order."""
    return {
        corpus: [
            row[0] for row in await stage.rows(f"SELECT embedding_state FROM {table} ORDER BY 1")
        ]
        for corpus, (table, _) in TABLES.items()
    }


async def vectors(stage: Stage, model: str | None = None) -> dict[str, int]:
    """How many vectors each corpus has, of one model or of all."""
    return {
        corpus: await stage.value(
            f"SELECT count(*) FROM {table} WHERE model = coalesce(%s, model)", model
        )
        for corpus, (_, table) in TABLES.items()
    }


class Interrupted(OfflineEmbedder):
    """An embedder during whose first call with a text of a corpus something happens to it."""

    def __init__(self, meanwhile: Hook, name: str = "") -> None:
        self._meanwhile = meanwhile
        self.name = name or OfflineEmbedder.name
        self._met: set[str] = set()

    async def embed(self, texts: Sequence[str], *, timeout: float | None = None) -> EmbeddingBatch:
        made = await super().embed(texts)
        for corpus in TABLES:
            if corpus not in self._met and any(text.startswith(corpus) for text in texts):
                self._met.add(corpus)
                await self._meanwhile(corpus)
        return made


async def fill(stage: Stage, embedder: OfflineEmbedder) -> None:
    """Back-fill until nothing is settled any more."""
    filling = Backfill(stage.maintenance, embedder)
    while await filling.run():
        pass


async def started(stage: Stage, embedder: OfflineEmbedder, *, switch: bool = False) -> Claim:
    """The job that gives every text a vector of a new model, in a worker's hands."""
    async with stage.maintenance.connection() as connection, connection.transaction():
        name, dimensions = embedder.name, embedder.dimensions
        await phases.start(connection, TENANT, name, dimensions, JobQueue(4), switch=switch)
    return await claimed(stage)


async def claimed(stage: Stage) -> Claim:
    """The waiting job in a worker's hands."""
    async with stage.maintenance.connection() as connection:
        (held,) = await claims.claim(
            connection, worker="test", kinds=[phases.KIND], limit=1, lease_seconds=60
        )
    return held


async def refill(stage: Stage, embedder: OfflineEmbedder, held: Claim) -> dict[str, int]:
    """Do such a job as a worker does; its counts."""
    job = Fill(stage.maintenance, Embedders(embedder, None), load_prices(None), Budget())
    await job.run(held)
    return await stage.counts(held)


async def reembed(stage: Stage, embedder: OfflineEmbedder) -> dict[str, int]:
    """Give every text a vector of a new model, as a worker does; the counts of the job."""
    return await refill(stage, embedder, await started(stage, embedder))
