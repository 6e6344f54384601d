"""The job of kind `document-ingestion`: indexes documents, one transaction for each.

Chunks are computed and embedded outside any transaction. A document that changed meanwhile is
processed again with its newest content; one that is gone, or that an earlier job has processed, is
skipped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from hitherto_extraction.budget import Budget
from hitherto_extraction.documents import chunking, indexing
from hitherto_extraction.documents.entities import mentioned
from hitherto_extraction.documents.indexing import PreparedDocument
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.prices import Charge, Prices
from hitherto_extraction.queue import attempts, claims, jobs
from hitherto_extraction.queue.claims import Claim, ClaimLost
from hitherto_extraction.queue.commit_retry import patiently
from hitherto_extraction.storage import documents, ledger, users
from hitherto_extraction.storage.corpora.documents import indexed_text
from hitherto_extraction.storage.documents import IndexedChunk, StoredDocument
from hitherto_extraction.storage.users import UserWriteState
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.embeddings.protocol import Embedder, Vector
from hitherto_shared.model_api import ModelError, ModelUnavailable
from hitherto_shared.models import Scope
from hitherto_shared.text.terms import count_terms

logger = logging.getLogger("hitherto.documents")

_READ_SECONDS = 30.0
_WRITE_SECONDS = 120.0
"""A document as large as a request has thousands of chunks."""
_ENOUGH_TEXTS = 384
"""Number of new chunks after which these are written before the next document."""
_TEXTS_AT_ONCE = 512
"""Number of chunks embedded together; more only for a very long document."""
_COUNTS = {"documents": 0, "chunks": 0, "entities": 0}


class ContentChanged(Exception):
    """The document has different content from what was prepared."""


class Ingestion:
    """Runs the job. The database role is hitherto_write."""

    def __init__(
        self,
        database: Database,
        embedder: Embedder,
        prices: Prices,
        *,
        memory_enabled: bool,
        budget: Budget | None = None,
    ) -> None:
        self._database = database
        self._embedder = embedder
        self._prices = prices
        self._memory_enabled = memory_enabled
        self._budget = budget or Budget()

    async def run(self, held: Claim) -> None:
        """Ingest the documents of the job, from where an earlier attempt stopped.

        Raises:
            ClaimLost: The claim was lost; nothing was written after that.
            BudgetSpent: The tenant's budget does not allow for the next documents.
        """
        if not await self._database.run(
            lambda connection: self._admit(connection, held), timeout=_READ_SECONDS
        ):
            return
        wanted = [UUID(document_id) for document_id in held.params.get("document_ids", ())]
        result = Result.of(held.result).with_counts(_COUNTS)
        done = held.done_to or 0
        if done >= len(wanted):
            await self._database.run(
                lambda connection: claims.finish(connection, held, result.stored(), done_to=done),
                timeout=_READ_SECONDS,
            )
        while done < len(wanted):
            if done > (held.done_to or 0):
                await self._database.run(
                    lambda connection: self._budget.require(connection, held.tenant_id, held.kind),
                    timeout=_READ_SECONDS,
                    repeatable=True,
                )
            group = await self._prepare(held.scope, wanted[done:])
            group, charges = await self._embed(group)
            for prepared in group:
                done += 1
                result = await self._ingest(held, prepared, charges, result, done, len(wanted))
                charges = []

    async def _ingest(
        self,
        held: Claim,
        prepared: PreparedDocument,
        charges: list[Charge],
        result: Result,
        done: int,
        total: int,
    ) -> Result:
        """Write one document, again if it changes meanwhile."""
        while True:
            try:
                return await self._commit(
                    held, prepared, charges, result, done_to=done, finished=done == total
                )
            except ContentChanged:
                logger.info("a document changed during ingestion; processing it again")
            ((prepared,), more) = await self._embed(
                await self._prepare(held.scope, [prepared.document_id])
            )
            charges = charges + more

    async def _prepare(self, scope: Scope, document_ids: Sequence[UUID]) -> list[PreparedDocument]:
        """As many of the documents as make a good batch to embed; at least one."""

        async def read(
            connection: Connection, document_id: UUID
        ) -> tuple[StoredDocument | None, str, list[IndexedChunk]]:
            document = await documents.read(connection, scope, document_id)
            state = await documents.read_state(connection, scope, document_id)
            return (
                document,
                state.heading if state is not None else "",
                await documents.read_chunks(connection, scope, document_id),
            )

        group: list[PreparedDocument] = []
        texts = 0
        for document_id in document_ids:
            document, heading_before, there = await self._database.run(
                lambda connection: read(connection, document_id),  # noqa: B023 - awaited here
                timeout=_READ_SECONDS,
                repeatable=True,
            )
            if document is None or document.ingested_hash == document.content_hash:
                group.append(PreparedDocument(document_id))
                continue
            prepared = await asyncio.to_thread(_made_of, document, heading_before, there)
            group.append(prepared)
            texts += len(prepared.terms)
            if texts >= _ENOUGH_TEXTS:
                break
        return group

    async def _embed(
        self, group: Sequence[PreparedDocument]
    ) -> tuple[list[PreparedDocument], list[Charge]]:
        """The group with vectors for its new chunks; during an outage they wait."""
        model = self._embedder.name
        places = [(i, position) for i, prepared in enumerate(group) for position in prepared.terms]
        vectors: list[dict[int, Vector]] = [{} for _ in group]
        charges: list[Charge] = []
        for start in range(0, len(places), _TEXTS_AT_ONCE):
            if self._embedder.name != model:
                # The rest is embedded with the new model by the back-fill.
                break
            some = places[start : start + _TEXTS_AT_ONCE]
            texts = [indexed_text(group[i].heading, group[i].chunks[at]) for i, at in some]
            try:
                batch = await self._embedder.embed(texts)
            except ModelError as error:
                logger.warning("documents can be found by their words only for now: %s", error)
                if isinstance(error, ModelUnavailable):
                    break
                continue
            for (i, at), vector in zip(some, batch.vectors, strict=True):
                vectors[i][at] = vector
            charges.append(self._prices.embedding_charge(model, batch.calls, batch.tokens))
        found = [
            replace(prepared, model=model, vectors=those)
            for prepared, those in zip(group, vectors, strict=True)
        ]
        return found, charges

    async def _commit(
        self,
        held: Claim,
        prepared: PreparedDocument,
        charges: list[Charge],
        result: Result,
        *,
        done_to: int,
        finished: bool,
    ) -> Result:
        """Write everything about one document, with the job's progress, in one transaction."""

        async def work(connection: Connection) -> Result | None:
            async with connection.transaction():
                # The job's row is not locked: a long document must not prevent the worker from
                # renewing its leases. `record_progress` rolls back what a lost claim has written.
                state = await users.lock_user(connection, held.scope)
                job = await jobs.get_job(connection, held.tenant_id, held.job_id)
                if (job.done_to or 0) >= done_to:
                    # An earlier try succeeded, and its reply was lost.
                    return Result.of(job.result)
                if await self._discarded(connection, held, state):
                    return None
                done = result.with_charges(charges).with_counts(
                    await self._write(connection, held.scope, prepared)
                )
                await ledger.charge(connection, held.scope, held.job_id, held.kind, charges)
                await claims.record_progress(
                    connection, held, done_to=done_to, result=done.stored(), finished=finished
                )
                return done

        written = await patiently(self._database, work, seconds=_WRITE_SECONDS)
        if written is None:
            raise ClaimLost
        return written

    async def _write(
        self, connection: Connection, scope: Scope, prepared: PreparedDocument
    ) -> Mapping[str, int]:
        document_id = prepared.document_id
        state = await documents.read_state(connection, scope, document_id)
        if state is None or state.ingested_hash == state.content_hash:
            return {}
        if state.content_hash != prepared.content_hash:
            raise ContentChanged
        await indexing.replace_chunks(connection, scope, prepared, heading_before=state.heading)
        entities = await indexing.replace_mentions(
            connection, scope, document_id, prepared.mentions
        )
        await documents.mark_ingested(connection, scope, document_id, heading=prepared.heading)
        return {"documents": 1, "chunks": len(prepared.chunks), "entities": entities}

    async def _admit(self, connection: Connection, held: Claim) -> bool:
        """Whether the job may begin; checked without a lock, `_commit` checks again."""
        state = await users.read_user(connection, held.scope)
        return not await self._discarded(connection, held, state)

    async def _discarded(
        self, connection: Connection, held: Claim, state: UserWriteState | None
    ) -> bool:
        """End the job if its user is gone or has memory switched off."""
        why = users.why_not_learning(state, self._memory_enabled)
        if why not in ("USER_ERASED", "MEMORY_DISABLED"):
            return False
        await attempts.discard(connection, held, why)
        return True


def _made_of(
    document: StoredDocument, heading_before: str, there: Sequence[IndexedChunk]
) -> PreparedDocument:
    heading = chunking.heading(document.title, document.summary)
    contents = chunking.passages(document.title, document.summary, document.content)
    change = indexing.compare(contents, there, same_heading=heading == heading_before)
    return PreparedDocument(
        document.document_id,
        document.content_hash,
        heading,
        contents,
        mentioned(document.source_type, document.content_type, document.author, document.metadata),
        {at: count_terms(indexed_text(heading, contents[at])) for at in change.comes},
    )
