"""The RPCs of ExtractionService on documents: IngestDocuments and DeleteDocument."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from hitherto.v1 import document_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_extraction.documents.ingest import (
    IngestedBatch,
    delete_document,
    ingest,
    ingested_again,
    postpone_expiry,
)
from hitherto_extraction.handlers.answering import Answering, checks_of
from hitherto_extraction.handlers.incoming import may_be_read
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.queue.jobs import JobSignals
from hitherto_extraction.storage.documents import IncomingDocument
from hitherto_shared.convert import job_message
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.offloading import in_thread
from hitherto_shared.rpc.call import Context
from hitherto_shared.validation import Checks

_STORING_SECONDS = 30.0
"""A whole request may wait for a large document that is being written for the same user."""

MAX_DOCUMENTS = 100
MAX_SOURCE_TYPE = 64
MAX_SOURCE_ID = 1_024
MAX_CONTENT_TYPE = 64
_MAX_BYTES = {
    "title": 4 * 1024,
    "summary": 64 * 1024,
    # The limit of a request.
    "content": 4 * 1024 * 1024,
    "author": 1024,
}
"""The texts of a document, in the order in which its hash covers them."""


class DocumentIngestionCalls:
    """Implements the two RPCs."""

    answering: Answering
    signals: JobSignals
    queue: JobQueue
    memory_enabled: bool

    async def IngestDocuments(
        self, request: pb.IngestDocumentsRequest, context: Context
    ) -> pb.IngestDocumentsResponse:
        """Store documents durably; one job indexes them."""
        sent, request = request, await self.answering.screened(request, context)
        checks, user_id = checks_of(request)
        # Checking a full batch takes seconds, which would block the event loop.
        batch = await in_thread(read_documents, checks, request.documents)
        for i, document in enumerate(batch):
            if request.refresh_only and document.expires_at is None:
                checks.add(f"documents[{i}].expires_at", "is required with refresh_only")
        call = self.answering.admit(checks, user_id, sent)

        async def change(user: UserRows) -> IngestedBatch:
            if request.refresh_only:
                return await postpone_expiry(user, batch)
            await self.queue.limit.require(user.connection, user.scope.tenant_id)
            return await ingest(user, batch, self.queue, memory_enabled=self.memory_enabled)

        async def again(user: UserRows, ids: Sequence[str]) -> IngestedBatch:
            return await ingested_again(user.connection, user.scope.tenant_id, ids)

        made, token = await self.answering.change_user(
            call, change, again, context, ids=IngestedBatch.ids, seconds=_STORING_SECONDS
        )
        self.signals.wake()
        job = None
        if made.job is not None:
            job = job_message(made.job, token if made.job.final else "")
        return pb.IngestDocumentsResponse(
            job=job,
            new_count=made.new,
            replaced_count=made.replaced,
            unchanged_count=made.unchanged,
            document_ids=map(str, made.document_ids),
            consistency_token=token,
        )

    async def DeleteDocument(
        self, request: pb.DeleteDocumentRequest, context: Context
    ) -> pb.DeleteDocumentResponse:
        """Delete a document; memories learnt from it stay."""
        checks, user_id = checks_of(request)
        document_id = checks.uuid("document_id", request.document_id)
        call = self.answering.admit(checks, user_id, request)
        made, token = await self.answering.remove(
            call,
            lambda user: delete_document(user, document_id),
            context,
            touched=str(document_id),
            seconds=_STORING_SECONDS,
        )
        return pb.DeleteDocumentResponse(counts=made, consistency_token=token)


def read_documents(
    checks: Checks, documents: Sequence[document_pb2.Document]
) -> list[IncomingDocument]:
    """The documents of a batch, each source once."""
    if not may_be_read(checks, "documents", "document", documents, MAX_DOCUMENTS):
        return []
    found: list[IncomingDocument] = []
    places: dict[tuple[str, str], int] = {}
    for i, document in enumerate(documents):
        read = _read_document(checks, f"documents[{i}]", document)
        source = (read.source_type, read.source_id)
        if source in places and all(source):
            checks.add(
                f"documents[{i}].source_id",
                f"names the same document as documents[{places[source]}]: send its last state only",
            )
        places.setdefault(source, i)
        found.append(read)
    return found


def _read_document(checks: Checks, field: str, document: document_pb2.Document) -> IncomingDocument:
    source_type = checks.identifier(
        f"{field}.source_type", document.source_type, max_chars=MAX_SOURCE_TYPE
    )
    source_id = checks.identifier(f"{field}.source_id", document.source_id, max_chars=MAX_SOURCE_ID)
    content_type = checks.identifier(
        f"{field}.content_type", document.content_type, required=False, max_chars=MAX_CONTENT_TYPE
    )
    texts = {
        name: checks.text(f"{field}.{name}", getattr(document, name), max_bytes=most)
        for name, most in _MAX_BYTES.items()
    }
    created_at = checks.moment(f"{field}.created_at", document, "created_at")
    metadata = checks.struct(f"{field}.metadata", document.metadata)
    expires_at = checks.moment(f"{field}.expires_at", document, "expires_at")
    said_at = created_at.isoformat() if created_at is not None else None
    everything = [content_type, *texts.values(), said_at, metadata]
    written = json.dumps(everything, sort_keys=True).encode()
    return IncomingDocument(
        source_type=source_type,
        source_id=source_id,
        content_type=content_type,
        **texts,
        created_at=created_at,
        metadata=metadata,
        content_hash=hashlib.sha256(written).digest(),
        expires_at=expires_at,
    )
