"""Validates incoming documents; reports every violation at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from hitherto.v1 import document_pb2
from hitherto_extraction.storage.documents import IncomingDocument
from hitherto_shared.validation import Checks

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


def read_documents(
    checks: Checks, documents: Sequence[document_pb2.Document]
) -> list[IncomingDocument]:
    """The documents of a batch, each source once."""
    if not documents:
        checks.add("documents", "must hold at least one document")
    if len(documents) > MAX_DOCUMENTS:
        checks.add(
            "documents",
            f"must hold at most {MAX_DOCUMENTS} documents, this holds {len(documents)}: send them "
            "in several calls",
        )
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
