"""ListDocuments and GetDocument."""

from __future__ import annotations

from hitherto.v1 import document_pb2
from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.handlers.reading import ReadCalls, UserChecks
from hitherto_retrieval.storage import documents
from hitherto_retrieval.storage.documents import Document
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.convert import made
from hitherto_shared.errors import not_found
from hitherto_shared.rpc.call import Context as CallContext
from hitherto_shared.rpc.call import current_call
from hitherto_shared.validation import Checks

_MAX_TYPES = 100
_MAX_TYPE = 64


class DocumentCalls(ReadCalls):
    """Implements the two RPCs."""

    async def ListDocuments(
        self, request: pb.ListDocumentsRequest, context: CallContext
    ) -> pb.ListDocumentsResponse:
        """A user's documents in pages, without their content."""
        checks = UserChecks(request)
        filters = _filters(checks, request)
        page = self._pages.open(checks, current_call().principal.tenant_id, request)
        reading = await self._begin(checks, request, context)
        if reading.empty:
            return pb.ListDocumentsResponse(reason=reading.reason)
        found, following, total = await reading.answer(
            documents.page(reading.scope, filters, **page.bounds)
        )
        return pb.ListDocumentsResponse(
            documents=[_message(document) for document in found],
            next_page_token=page.seal(following),
            total_size=total,
        )

    async def GetDocument(
        self, request: pb.GetDocumentRequest, context: CallContext
    ) -> pb.GetDocumentResponse:
        """One document, whole."""
        checks = UserChecks(request)
        document_id = checks.uuid("document_id", request.document_id)
        reading = await self._begin(checks, request, context)
        if reading.disabled:
            return pb.GetDocumentResponse(reason=reading.reason)
        found = await reading.answer(documents.read_document(reading.scope, document_id))
        if found is None or reading.empty:
            raise not_found("document", document_id)
        return pb.GetDocumentResponse(document=_message(found))


def _filters(checks: Checks, request: pb.ListDocumentsRequest) -> PassageFilters:
    types = {
        name: checks.texts(name, getattr(request, name), maximum=_MAX_TYPES, max_chars=_MAX_TYPE)
        for name in ("source_types", "content_types")
    }
    return PassageFilters(
        source_types=types["source_types"] or None,
        content_types=types["content_types"] or None,
        entity=checks.identifier("entity", request.entity, required=False) or None,
        created_after=checks.moment("created_after", request, "created_after"),
        created_before=checks.moment("created_before", request, "created_before"),
        metadata=checks.struct("metadata_filter", request.metadata_filter),
    )


def _message(document: Document) -> document_pb2.Document:
    return made(document_pb2.Document, document, id=str(document.document_id))
