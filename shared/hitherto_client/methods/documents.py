"""Documents: emails, files, tasks and calendar events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hitherto.v1 import document_pb2
from hitherto.v1 import extraction_service_pb2 as extraction_pb2
from hitherto.v1 import retrieval_service_pb2 as retrieval_pb2
from hitherto_client.methods.stubs import Stubs


class Documents(Stubs):
    """Calls about documents."""

    def ingest_documents(
        self,
        user_id: str,
        documents: Iterable[document_pb2.Document],
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> extraction_pb2.IngestDocumentsResponse:
        """Ingest 1 to 100 documents; known ones are replaced, unchanged ones cost nothing."""
        request = extraction_pb2.IngestDocumentsRequest(
            user_id=user_id, documents=documents, idempotency_key=idempotency_key
        )
        return self.extraction.IngestDocuments(request, timeout=timeout)

    def list_documents(
        self, user_id: str, *, timeout: float | None = None, **options: Any
    ) -> retrieval_pb2.ListDocumentsResponse:
        """One page of documents without content; `options` are fields of ListDocumentsRequest."""
        request = retrieval_pb2.ListDocumentsRequest(user_id=user_id, **options)
        return self.retrieval.ListDocuments(request, timeout=timeout)

    def get_document(
        self,
        user_id: str,
        document_id: str,
        *,
        consistency_token: str = "",
        timeout: float | None = None,
    ) -> retrieval_pb2.GetDocumentResponse:
        """One document with its content."""
        request = retrieval_pb2.GetDocumentRequest(
            user_id=user_id, document_id=document_id, consistency_token=consistency_token
        )
        return self.retrieval.GetDocument(request, timeout=timeout)

    def delete_document(
        self,
        user_id: str,
        document_id: str,
        *,
        idempotency_key: str = "",
        timeout: float | None = None,
    ) -> extraction_pb2.DeleteDocumentResponse:
        """Remove a document for good; what was learnt from it stays (see `rollback_source`)."""
        request = extraction_pb2.DeleteDocumentRequest(
            user_id=user_id, document_id=document_id, idempotency_key=idempotency_key
        )
        return self.extraction.DeleteDocument(request, timeout=timeout)
