"""Reads documents: whole by id, and in pages without their content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from hitherto_retrieval.storage.filters import forms
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

_READ = """
SELECT document_id, source_type, source_id, content_type, title, summary, content, author,
       source_created_at, metadata, updated_at
FROM documents
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s
"""

_LET_THROUGH = """
WHERE d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s
  AND (%(source_types)s::text[] IS NULL OR d.source_type = ANY(%(source_types)s))
  AND (%(content_types)s::text[] IS NULL OR d.content_type = ANY(%(content_types)s))
  AND (%(created_after)s::timestamptz IS NULL OR d.source_created_at >= %(created_after)s)
  AND (%(created_before)s::timestamptz IS NULL OR d.source_created_at < %(created_before)s)
  AND (%(metadata)s::jsonb IS NULL OR NOT EXISTS (
        SELECT FROM jsonb_each(%(metadata)s) AS wanted
        WHERE d.metadata -> wanted.key IS DISTINCT FROM wanted.value))
  AND (%(entity_names)s::text[] IS NULL OR EXISTS (
        SELECT FROM document_mentions AS dm
        JOIN entities AS en ON en.tenant_id = dm.tenant_id AND en.user_id = dm.user_id
             AND en.entity_id = dm.entity_id
        WHERE dm.tenant_id = d.tenant_id AND dm.user_id = d.user_id
          AND dm.document_id = d.document_id AND en.called && %(entity_names)s::text[]))
"""

# A page starts after the last document of the previous page.
_PAGE = (
    """
SELECT d.document_id, d.source_type, d.source_id, d.content_type, d.title, d.summary, '', d.author,
       d.source_created_at, d.metadata, d.updated_at
FROM documents AS d
"""
    + _LET_THROUGH
    + """
  AND (%(after_at)s::timestamptz IS NULL
       OR (d.source_created_at, d.document_id) < (%(after_at)s::timestamptz, %(after_id)s::uuid))
ORDER BY d.source_created_at DESC, d.document_id DESC
LIMIT %(limit)s
"""
)

_COUNT = "SELECT count(*) FROM documents AS d" + _LET_THROUGH

# Aliases are stored as they were written.


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


@dataclass(frozen=True, slots=True)
class DocumentFilters:
    """Which documents a list contains; None means all."""

    source_types: Sequence[str] | None = None
    content_types: Sequence[str] | None = None
    entity: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


async def read_document(connection: Connection, scope: Scope, document_id: UUID) -> Document | None:
    """The whole document, or None if the user has none with this id."""
    cursor = await connection.execute(_READ, {**_of(scope), "document_id": document_id})
    row = await cursor.fetchone()
    return Document(*row) if row else None


async def list_documents(
    connection: Connection,
    scope: Scope,
    filters: DocumentFilters,
    *,
    after: Sequence[str] | None,
    limit: int,
) -> tuple[list[Document], list[str] | None, int]:
    """A page, the newest at the source first, the start of the next one, and the total number."""
    values = {
        **_of(scope),
        "source_types": list(filters.source_types) if filters.source_types else None,
        "content_types": list(filters.content_types) if filters.content_types else None,
        "entity_names": forms(filters.entity) if filters.entity else None,
        "created_after": filters.created_after,
        "created_before": filters.created_before,
        "metadata": Jsonb(filters.metadata) if filters.metadata else None,
        "after_at": after[0] if after else None,
        "after_id": after[1] if after else None,
        "limit": limit + 1,
    }
    cursor = await connection.execute(_PAGE, values)
    found = [Document(*row) for row in await cursor.fetchall()]
    cursor = await connection.execute(_COUNT, values)
    row = await cursor.fetchone()
    total = int(row[0]) if row else 0
    if len(found) <= limit:
        return found, None, total
    last = found[limit - 1]
    return found[:limit], [last.created_at.isoformat(), str(last.document_id)], total


def _of(scope: Scope) -> dict[str, Any]:
    return {"tenant_id": scope.tenant_id, "user_id": scope.user_id}
