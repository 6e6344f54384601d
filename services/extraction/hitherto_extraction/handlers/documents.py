"""The RPCs of ExtractionService on documents: IngestDocuments and DeleteDocument."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_extraction.documents.ingest import (
    IngestedBatch,
    IngestRules,
    delete_document,
    ingest,
    ingested_again,
    postpone_expiry,
)
from hitherto_extraction.handlers.answering import Answering
from hitherto_extraction.handlers.incoming_documents import read_documents
from hitherto_extraction.queue.depth import QueueLimit
from hitherto_extraction.queue.signals import JobSignals
from hitherto_shared.convert import job_message
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.rpc.call import Context
from hitherto_shared.validation import Checks

_STORING_SECONDS = 30.0
"""A whole request may wait for a large document that is being written for the same user."""


@dataclass(frozen=True, slots=True)
class DocumentDependencies:
    """The dependencies of the calls; `removal` is the database with the role that may delete."""

    removal: Database
    rules: IngestRules
    limit: QueueLimit


class DocumentIngestionCalls:
    """Implements the two RPCs."""

    _answering: Answering
    _signals: JobSignals
    _documents: DocumentDependencies

    async def IngestDocuments(
        self, request: pb.IngestDocumentsRequest, context: Context
    ) -> pb.IngestDocumentsResponse:
        """Store documents durably; one job indexes them."""
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        # Checking a full batch takes seconds, which would block the event loop.
        batch = await asyncio.to_thread(read_documents, checks, request.documents)
        for i, document in enumerate(batch):
            if request.refresh_only and document.expires_at is None:
                checks.add(f"documents[{i}].expires_at", "is required with refresh_only")
        call = self._answering.admit(checks, user_id, request)
        scope = call.scope

        async def change(connection: Connection) -> IngestedBatch:
            if request.refresh_only:
                return await postpone_expiry(connection, scope, batch)
            await self._documents.limit.require(connection, scope.tenant_id)
            return await ingest(connection, scope, batch, self._documents.rules)

        async def again(connection: Connection, ids: Sequence[str]) -> IngestedBatch:
            return await ingested_again(connection, scope.tenant_id, ids)

        outcome = await self._answering.change_user(
            call, change, again, context, ids=IngestedBatch.ids, seconds=_STORING_SECONDS
        )
        self._signals.wake()
        made, token = outcome.made, self._answering.token(outcome.position)
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
        checks = Checks()
        user_id = checks.identifier("user_id", request.user_id)
        document_id = checks.uuid("document_id", request.document_id)
        call = self._answering.admit(checks, user_id, request)
        outcome = await self._answering.remove(
            call,
            lambda connection: delete_document(connection, call.scope, document_id),
            context,
            touched=str(document_id),
            database=self._documents.removal,
            seconds=_STORING_SECONDS,
        )
        return pb.DeleteDocumentResponse(
            counts=outcome.made, consistency_token=self._answering.token(outcome.position)
        )
