"""Documents: their list, their text, adding one, and their deletion."""

from __future__ import annotations

from datetime import datetime

from starlette.responses import Response

from hitherto_client.console.failures import Failure
from hitherto_client.console.fields import FieldRefused
from hitherto_client.console.rendering import now
from hitherto_client.console.visits import PAGE_SIZE, Visit, change, look, or_again
from hitherto_client.inputs import DocumentInput

SOURCE_TYPE = "console"
"""Of documents that somebody adds here; their titles tell them apart."""
_UNKNOWN = Failure(404, "There is no such document", "It was deleted, or is somebody else's.")


async def _documents(visit: Visit) -> Response:
    source, entity = visit.address.text("source"), visit.address.text("entity")
    listed = visit.client.documents(
        visit.user, source_types=[source] if source else (), entity=entity, page_size=PAGE_SIZE
    )
    return visit.page(
        "documents.html",
        found=await listed.page(visit.address.text("page")),
        source=source,
        entity=entity,
    )


async def _document(visit: Visit) -> Response:
    document = await visit.client.get_document(visit.user, visit.named("document"))
    if document is None:
        return visit.fail(_UNKNOWN)
    return visit.page("document.html", document=document)


async def _expire(visit: Visit) -> Response:
    """Set, change or clear the day; postponing alone leaves the rest of the document untouched."""
    document = await visit.client.get_document(visit.user, visit.named("document"))
    if document is None:
        return visit.fail(_UNKNOWN)
    end = _end(visit)
    given: DocumentInput = {"source_type": document.source_type, "source_id": document.source_id}
    if end:
        given["expires_at"] = end
        if await visit.client.refresh_documents(visit.user, [given]):
            return visit.go(f"/documents/{document.id}", "Postponed.")
    given["content_type"], given["title"] = document.content_type, document.title
    given["summary"], given["content"] = document.summary, document.content
    given["author"], given["metadata"] = document.author, document.metadata
    if document.created_at:
        given["created_at"] = document.created_at
    await visit.client.ingest_documents(visit.user, [given])
    return visit.go(f"/documents/{document.id}", "The expiry is set." if end else "It is kept.")


def _end(visit: Visit) -> datetime | None:
    end = visit.form.day("expires_at")
    if end and end <= now():
        raise FieldRefused("The document would expire at once. Choose a later day, or delete it.")
    return end


async def _delete(visit: Visit) -> Response:
    await visit.client.delete_document(visit.user, visit.named("document"))
    return visit.go("/documents", "The document is deleted. What was learnt from it stays.")


async def _new(visit: Visit, problem: Failure | None = None) -> Response:
    return visit.page("new_document.html", problem, form=visit.form)


async def _save(visit: Visit) -> Response:
    form = visit.form
    title, end = form.text("title"), _end(visit)
    given: DocumentInput = {
        "source_type": SOURCE_TYPE,
        "source_id": title,
        "content_type": "document",
        "title": title,
        "author": form.text("author"),
        "content": form.text("content"),
    }
    if end:
        given["expires_at"] = end
    saved = await visit.client.ingest_documents(visit.user, [given])
    if not saved.document_ids:
        return visit.go("/documents", "Nothing was stored: memory is switched off.")
    told = "This document was known already." if saved.unchanged_count else "Stored."
    return visit.go(f"/documents/{saved.document_ids[0]}", told)


ROUTES = (
    look("/documents", _documents),
    look("/documents/new", _new),
    change("/documents/new", or_again(_save, _new)),
    look("/documents/{document}", _document),
    change("/documents/{document}/expiry", _expire),
    change("/documents/{document}/delete", _delete),
)
