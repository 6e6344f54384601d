"""The job of kind `document-ingestion`: indexes documents, one transaction for each.

Chunks are computed and embedded outside any transaction. A document that changed meanwhile is
processed again with its newest content; one that is gone, or that an earlier job has processed, is
skipped.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from uuid import UUID

from hitherto_extraction.budget import Budget
from hitherto_extraction.documents import chunking
from hitherto_extraction.documents.entities import Mention, mentioned, settle
from hitherto_extraction.pipeline.embedding_loop import embed
from hitherto_extraction.pipeline.failed_attempts import FailedAttempts
from hitherto_extraction.pipeline.job_commit import CommittedBefore, commit, may_continue, record
from hitherto_extraction.pipeline.result import SECRETS_REDACTED, Result
from hitherto_extraction.prices import Charge, Prices
from hitherto_extraction.queue import claims, jobs
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.storage import document_mentions, documents, users
from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora import vectors as store
from hitherto_extraction.storage.corpora.corpus import EmbeddableText
from hitherto_extraction.storage.corpora.documents import DOCUMENTS, indexed_text
from hitherto_extraction.storage.documents import IndexedChunk, StoredDocument
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.active_embedder import registered_length
from hitherto_shared.embeddings.protocol import Embedder, Vector
from hitherto_shared.identifiers import uuid7
from hitherto_shared.model_api import ModelError, ModelUnavailable
from hitherto_shared.models import Scope
from hitherto_shared.offloading import in_thread
from hitherto_shared.text.normalise import fold
from hitherto_shared.text.redaction import count_marked
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


@dataclass(slots=True)
class IngestionAttempt:
    """An attempt of a job: its documents, how many are done, and what was spent since."""

    held: Claim
    wanted: Sequence[UUID]
    result: Result
    done: int
    charges: list[Charge] = field(default_factory=list)


@dataclass(eq=False)
class Ingestion:
    """Runs the job. The database role is hitherto_write."""

    database: Database
    embedder: Embedder
    prices: Prices
    account: FailedAttempts
    _: KW_ONLY
    memory_enabled: bool
    budget: Budget = field(default_factory=Budget)

    async def run(self, held: Claim) -> None:
        """Ingest the documents of the job, from where an earlier attempt stopped.

        Raises:
            ClaimLost: The claim was lost; nothing was written after that.
            BudgetSpent: The tenant's budget does not allow for the next documents.
        """

        async def admit(connection: Connection) -> bool:
            # Without a lock: `_commit` checks again.
            user = connection.of(held.scope)
            state = await users.read_user(user)
            return await may_continue(user, held, state, self.memory_enabled, learns=False)

        if not await self.database.run(admit, timeout=_READ_SECONDS):
            return
        wanted = [UUID(document_id) for document_id in held.params.get("document_ids", ())]
        result = Result.of(held.result).with_counts(_COUNTS)
        run = IngestionAttempt(held, wanted, result, held.done_to or 0)
        if run.done >= len(wanted):
            await self.database.run(
                lambda connection: claims.finish(
                    connection, held, result.stored(), done_to=run.done
                ),
                timeout=_READ_SECONDS,
            )
        try:
            await self._read(run)
        except Exception as error:
            await self.account.settle(held, run.result, run.charges, error)
            raise

    async def _read(self, run: IngestionAttempt) -> None:
        """Ingest what is left of the documents, group by group."""
        held = run.held
        while run.done < len(run.wanted):
            if run.done > (held.done_to or 0):
                await self.budget.check(self.database, held.tenant_id, held.kind)
            group = await self._prepare(held.scope, run.wanted[run.done :])
            for prepared in await self._embed(run, group):
                await self._ingest(run, prepared)

    async def _ingest(self, run: IngestionAttempt, prepared: PreparedDocument) -> None:
        """Write one document, again if it changes meanwhile."""
        while True:
            try:
                run.result = await self._commit(run, prepared)
                run.done, run.charges = run.done + 1, []
                return
            except ContentChanged:
                logger.info("a document changed during ingestion; processing it again")
            again = await self._prepare(run.held.scope, [prepared.document_id])
            (prepared,) = await self._embed(run, again)

    async def _prepare(self, scope: Scope, document_ids: Sequence[UUID]) -> list[PreparedDocument]:
        """As many of the documents as make a good batch to embed; at least one."""

        async def read(
            connection: Connection, document_id: UUID
        ) -> tuple[StoredDocument | None, list[IndexedChunk]]:
            user = connection.of(scope)
            document = await documents.read(user, document_id)
            return document, await documents.read_chunks(user, document_id)

        group: list[PreparedDocument] = []
        texts = 0
        for document_id in document_ids:
            document, there = await self.database.run(
                lambda connection: read(connection, document_id),  # noqa: B023 - awaited here
                timeout=_READ_SECONDS,
                repeatable=True,
            )
            if document is None or document.ingested_hash == document.content_hash:
                group.append(PreparedDocument(document_id))
                continue
            prepared = await in_thread(_made_of, document, there)
            group.append(prepared)
            texts += len(prepared.terms)
            if texts >= _ENOUGH_TEXTS:
                break
        return group

    async def _embed(
        self, run: IngestionAttempt, group: Sequence[PreparedDocument]
    ) -> list[PreparedDocument]:
        """The group with vectors for its new chunks; during an outage they wait."""
        model = self.embedder.name
        places = [(i, position) for i, prepared in enumerate(group) for position in prepared.terms]
        vectors: list[dict[int, Vector]] = [{} for _ in group]
        for start in range(0, len(places), _TEXTS_AT_ONCE):
            if self.embedder.name != model:
                # The rest is embedded with the new model by the back-fill.
                break
            some = places[start : start + _TEXTS_AT_ONCE]
            texts = [indexed_text(group[i].heading, group[i].chunks[at]) for i, at in some]
            try:
                batch = await embed(
                    self.embedder, {place: (text,) for place, text in zip(some, texts, strict=True)}
                )
            except ModelError as error:
                logger.warning("documents can be found by their words only for now: %s", error)
                if isinstance(error, ModelUnavailable):
                    break
                continue
            for (i, at), (vector,) in batch.vectors.items():
                vectors[i][at] = vector
            run.charges.append(self.prices.embedding_charge(model, batch.calls, batch.tokens))
        return [
            replace(prepared, model=model, vectors=those)
            for prepared, those in zip(group, vectors, strict=True)
        ]

    async def _commit(self, run: IngestionAttempt, prepared: PreparedDocument) -> Result:
        """Write everything about one document, with the job's progress, in one transaction."""
        held, charges, done_to = run.held, run.charges, run.done + 1

        async def write(user: UserRows) -> Result | None:
            # The job's row is not locked: a long document must not prevent the worker from renewing
            # its leases. `record` rolls back what a lost claim has written.
            state = await users.lock_user(user)
            job = await jobs.get_job(user.connection, held.tenant_id, held.job_id)
            if (job.done_to or 0) >= done_to:
                raise CommittedBefore
            if not await may_continue(user, held, state, self.memory_enabled, learns=False):
                return None
            counts = await self._write(user, prepared)
            result = run.result.with_charges(charges).with_counts(counts)
            finished = done_to == len(run.wanted)
            await record(user, held, result, charges, done_to=done_to, finished=finished)
            return result

        return await commit(self.database, held, write, seconds=_WRITE_SECONDS)

    async def _write(self, user: UserRows, prepared: PreparedDocument) -> Mapping[str, int]:
        document_id = prepared.document_id
        state = await documents.read_state(user, document_id)
        if state is None or state.ingested_hash == state.content_hash:
            return {}
        if state.content_hash != prepared.content_hash:
            raise ContentChanged
        await _replace_chunks(user, prepared, heading_before=state.heading)
        entities = await _replace_mentions(user, document_id, prepared.mentions)
        await documents.mark_ingested(user, document_id, heading=prepared.heading)
        counts = {"documents": 1, "chunks": len(prepared.chunks), "entities": entities}
        return counts | ({SECRETS_REDACTED: prepared.redacted} if prepared.redacted else {})


def _made_of(document: StoredDocument, there: Sequence[IndexedChunk]) -> PreparedDocument:
    heading = chunking.heading(document.title, document.summary)
    contents = chunking.passages(document.title, document.summary, document.content)
    change = _compare(contents, there, same_heading=heading == document.ingested_heading)
    return PreparedDocument(
        document.document_id,
        document.content_hash,
        heading,
        contents,
        mentioned(document.source_type, document.content_type, document.author, document.metadata),
        {at: count_terms(indexed_text(heading, contents[at])) for at in change.comes},
        redacted=sum(map(count_marked, (document.title, document.summary, document.content))),
    )


@dataclass(frozen=True, slots=True)
class ChunkChanges:
    """How stored chunks change: which stay, where (by id), which go, and where new ones come."""

    stays: Mapping[UUID, int]
    goes: Sequence[IndexedChunk]
    comes: Sequence[int]


def _compare(
    contents: Sequence[str], held: Sequence[IndexedChunk], *, same_heading: bool
) -> ChunkChanges:
    """Which chunks stay; none if their common heading has changed."""
    by_content: defaultdict[str, deque[IndexedChunk]] = defaultdict(deque)
    if same_heading:
        for chunk in held:
            by_content[chunk.content].append(chunk)
    stays: dict[UUID, int] = {}
    comes = []
    for position, content in enumerate(contents):
        if by_content[content]:
            stays[by_content[content].popleft().chunk_id] = position
        else:
            comes.append(position)
    return ChunkChanges(stays, [chunk for chunk in held if chunk.chunk_id not in stays], comes)


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document and what is to be written; a skipped one has only its id.

    `heading` precedes each chunk in the indexes. `terms` and `vectors` are those of new chunks by
    position, as far as they are computed already; `redacted` counts secrets.
    """

    document_id: UUID
    content_hash: bytes = b""
    heading: str = ""
    chunks: Sequence[str] = ()
    mentions: Sequence[Mention] = ()
    terms: Mapping[int, Counter[str]] = field(default_factory=dict)
    model: str = ""
    vectors: Mapping[int, Vector] = field(default_factory=dict)
    redacted: int = 0


async def _replace_chunks(
    user: UserRows, prepared: PreparedDocument, *, heading_before: str
) -> None:
    """Store the chunks of a document, in order; a new one without a vector waits for it.

    `heading_before` preceded the stored chunks in the indexes.
    """
    document_id, contents, heading = prepared.document_id, prepared.chunks, prepared.heading
    held, length = await together(
        user.connection,
        documents.read_chunks(user, document_id),
        registered_length(user.connection, prepared.model),
    )
    change = _compare(contents, held, same_heading=heading == heading_before)
    if change.goes:
        # Under the heading before: the index knows them by it.
        await documents.delete_chunks(user, [chunk.chunk_id for chunk in change.goes])
    await documents.move_chunks(user, change.stays)
    counted = [
        prepared.terms.get(position) or count_terms(indexed_text(heading, contents[position]))
        for position in change.comes
    ]
    numbers = (await index.add(user, {DOCUMENTS: counted}))[DOCUMENTS]
    new = [
        IndexedChunk(uuid7(), contents[position], position, number, words.total())
        for position, number, words in zip(change.comes, numbers, counted, strict=True)
    ]
    await documents.insert_chunks(user, document_id, new)
    found = {
        EmbeddableText(
            (user.scope.tenant_id, user.scope.user_id, str(chunk.chunk_id), 0), (chunk.content,)
        ): [prepared.vectors[chunk.position]]
        for chunk in new
        if chunk.position in prepared.vectors
    }
    await store.write_stored(user.connection, DOCUMENTS, found, model=prepared.model, length=length)


async def _replace_mentions(user: UserRows, document_id: UUID, mentions: Sequence[Mention]) -> int:
    """Make `mentions` the mentions of a document; returns the number of entities."""
    before = await document_mentions.withdraw(user, document_id)
    names = {name for one in mentions for name in (one.name, one.email) if name}
    known = await document_mentions.find(user, name_keys=list(map(fold, names)), names=list(names))
    entities = settle(mentions, known, uuid7)
    await document_mentions.write(user, entities)
    named = [(entity.entity_id, entity.names) for entity in entities if entity.names]
    await document_mentions.mention(user, document_id, named)
    await document_mentions.drop_unmentioned(user, before)
    return len(named)
