"""Reads documents: whole by id, and in pages without their content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

_READ = """
SELECT document_id, source_type, source_id, content_type, title, summary, content, author,
       source_created_at AS created_at, metadata, updated_at, expires_at
FROM documents
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s
  AND (expires_at IS NULL OR expires_at > now())
"""

# A page starts after the last document of the previous page.
_PAGE = """
SELECT d.document_id, d.source_type, d.source_id, d.content_type, d.title, d.summary, '', d.author,
       d.source_created_at AS created_at, d.metadata, d.updated_at, d.expires_at
FROM filtered_documents(
    %(tenant_id)s, %(user_id)s, NULL, %(created_after)s, %(created_before)s, NULL,
    %(entity_names)s, %(metadata)s, %(source_types)s, %(content_types)s) AS d
WHERE %(after_at)s::timestamptz IS NULL
   OR (d.source_created_at, d.document_id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)
ORDER BY d.source_created_at DESC, d.document_id DESC
LIMIT %(limit)s
"""

_COUNT = """
SELECT count(*)
FROM filtered_documents(
    %(tenant_id)s, %(user_id)s, NULL, %(created_after)s, %(created_before)s, NULL,
    %(entity_names)s, %(metadata)s, %(source_types)s, %(content_types)s) AS d
"""


@dataclass(frozen=True, slots=True)
class Document:
    """A document; `created_at` is its creation time at the source, `content` is empty in lists."""

    document_id: UUID
    source_type: str
    source_id: str
    content_type: str
    title: str
    summary: str
    content: str
    author: str
    created_at: datetime
    metadata: Mapping[str, Any]
    updated_at: datetime
    expires_at: datetime | None


async def read_document(connection: Connection, scope: Scope, document_id: UUID) -> Document | None:
    """The whole document, or None if the user has none with this id."""
    return await connection.fetch_one(Document, _READ, scope.bind(document_id=document_id))


async def list_documents(
    connection: Connection,
    scope: Scope,
    filters: PassageFilters,
    *,
    after: Sequence[str] | None,
    limit: int,
) -> tuple[list[Document], list[str] | None, int]:
    """A page, the newest at the source first, the start of the next one, and the total number."""
    values = scope.bind(
        **filters.parameters(),
        after_at=after[0] if after else None,
        after_id=after[1] if after else None,
        limit=limit + 1,
    )
    found = await connection.fetch(Document, _PAGE, values)
    total = int(await connection.fetch_value(_COUNT, values) or 0)
    if len(found) <= limit:
        return found, None, total
    last = found[limit - 1]
    return found[:limit], [last.created_at.isoformat(), str(last.document_id)], total
