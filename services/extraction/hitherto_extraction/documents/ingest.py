"""Accepts and deletes documents, each in the one transaction of a call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.queue import jobs
from hitherto_extraction.queue.enqueueing import JobQueue, enqueue_done
from hitherto_extraction.storage import document_mentions, documents, users
from hitherto_extraction.storage.documents import ExistingDocument, IncomingDocument
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Job

KIND = "document-ingestion"
_AT_ONCE = 1_000
"""Number of documents from which those that were left unread get a further job."""


@dataclass(frozen=True, slots=True)
class IngestedBatch:
    """The outcome of a batch; the ids are in its order. `job` is None once it is erased."""

    job: Job | None
    document_ids: Sequence[UUID]
    new: int = 0
    replaced: int = 0
    unchanged: int = 0

    def ids(self) -> list[str]:
        """The ids stored for a repeated call."""
        job = str(self.job.job_id) if self.job is not None else ""
        counts = (self.new, self.replaced, self.unchanged)
        return [job, *map(str, counts), *map(str, self.document_ids)]


async def ingest(
    user: UserRows, batch: Sequence[IncomingDocument], queue: JobQueue, *, memory_enabled: bool
) -> IngestedBatch:
    """Store a batch and queue the job that indexes it.

    The job is a new one for documents that are new, have changed, or were left unread by a job that
    ended early. Otherwise it is the last job that reads or has read one of these documents, or, if
    none is stored any more, one that has ended with nothing to do.

    Raises:
        WrongState: The user was erased.
    """
    state = await users.enter_user(user)
    if why := users.why_not_storing(state, memory_enabled):
        refused = await queue.enqueue_cancelled(user, None, why, kind=KIND)
        return IngestedBatch(refused, [])
    # One at a time: a document that two callers submit at once is new for one of them.
    await users.lock_user(user)
    held = await documents.find(user, [(d.source_type, d.source_id) for d in batch])
    ids = [held[i].document_id if i in held else uuid7() for i in range(len(batch))]
    same = {i: one for i, one in held.items() if one.content_hash == batch[i].content_hash}
    stored = {ids[i]: d for i, d in enumerate(batch) if i not in same}
    await documents.store(user, stored)
    await documents.set_expiry(user, {ids[i]: batch[i] for i in same})
    job = await _reader_of(user, queue, ids, stored=stored.keys(), same=list(same.values()))
    new, unchanged = len(batch) - len(held), len(same)
    return IngestedBatch(job, ids, new, len(held) - unchanged, unchanged)


async def _reader_of(
    user: UserRows,
    queue: JobQueue,
    ids: Sequence[UUID],
    *,
    stored: Collection[UUID],
    same: Sequence[ExistingDocument],
) -> Job:
    """The job of a batch, of which some documents were `stored` now and others are the `same`."""
    known = await _readers(user, same)
    unread = {
        one.document_id
        for one in same
        if one.lags and (one.job_id not in known or known[one.job_id].final)
    }
    to_read = [each for each in ids if each in stored or each in unread]
    if to_read:
        job = await queue.enqueue_of(user, KIND, {"document_ids": list(map(str, to_read))})
        await documents.assign(user, to_read, job.job_id)
        return job
    if known:
        return max(known.values(), key=lambda job: (not job.final, job.created_at, job.job_id))
    return await enqueue_done(
        user.connection,
        user.scope.tenant_id,
        KIND,
        user_id=user.scope.user_id,
        params={"document_ids": []},
        result={"counts": {"documents": 0, "chunks": 0, "entities": 0}},
    )


async def _readers(user: UserRows, held: Sequence[ExistingDocument]) -> dict[UUID, Job]:
    """The jobs that read documents, by id; an imported one may name a job of another user."""
    named = list({one.job_id for one in held if one.job_id})
    found = await jobs.get_jobs(user.connection, user.scope.tenant_id, named)
    return {job.job_id: job for job in found if job.user_id == user.scope.user_id}


async def read_left(user: UserRows, queue: JobQueue) -> None:
    """Queue what reads the documents that no job has read or is going to, under the user's lock."""
    lagging = await documents.find_lagging(user)
    known = await _readers(user, lagging)
    going = {job_id for job_id, job in known.items() if not job.final}
    left = [one.document_id for one in lagging if one.job_id not in going]
    for start in range(0, len(left), _AT_ONCE):
        part = left[start : start + _AT_ONCE]
        job = await queue.enqueue_of(user, KIND, {"document_ids": list(map(str, part))})
        await documents.assign(user, part, job.job_id)


async def postpone_expiry(user: UserRows, batch: Sequence[IncomingDocument]) -> IngestedBatch:
    """Postpone the expiry of known documents, and change nothing else; see `ingest`."""
    await users.enter_alone(user)
    held = await documents.find(user, [(d.source_type, d.source_id) for d in batch])
    ends = {
        held[i].document_id: end for i, d in enumerate(batch) if (end := d.expires_at) and i in held
    }
    postponed = await documents.postpone_expiry(user, ends)
    return IngestedBatch(None, postponed, replaced=len(postponed))


async def ingested_again(
    connection: Connection, tenant_id: str, ids: Sequence[str]
) -> IngestedBatch:
    """The outcome of an earlier call, from its stored ids; the job in its present state."""
    job_ids = [UUID(ids[0])] if ids[0] else []
    found = await jobs.get_jobs(connection, tenant_id, job_ids)
    return IngestedBatch(
        found[0] if found else None, [UUID(one) for one in ids[4:]], *map(int, ids[1:4])
    )


async def delete_document(user: UserRows, document_id: UUID) -> dict[str, int]:
    """Delete a document with everything derived from it; returns the number of rows, by table.

    Entities that nothing mentions any more are deleted, and others lose what only this document
    contributed. Memories learnt from it stay. The role is hitherto_removal.

    Raises:
        NotFound: The user has no such document.
        WrongState: The user was erased.
    """
    await users.enter_alone(user)
    await documents.require(user, document_id)
    return await _remove(user, document_id)


async def delete_expired(user: UserRows, document_id: UUID) -> bool:
    """Delete a document, as `delete_document` does, if it is still there and still expired."""
    await users.enter_alone(user)
    state = await documents.read_state(user, document_id)
    if state is None or not state.expired:
        return False
    await _remove(user, document_id)
    return True


async def _remove(user: UserRows, document_id: UUID) -> dict[str, int]:
    held = await documents.read_chunks(user, document_id)
    deleted = await documents.delete_chunks(user, [chunk.chunk_id for chunk in held])
    mentioned = await document_mentions.withdraw(user, document_id)
    entities = await document_mentions.drop_unmentioned(user, mentioned)
    return {
        "documents": await documents.delete(user, document_id),
        "document_chunks": deleted[0],
        "document_chunk_embeddings": deleted[1],
        "document_mentions": len(mentioned),
        "entities": entities,
    }
