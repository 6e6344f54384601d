"""Reads documents: whole by id, and in pages without their content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.models import Scope

_READ = """
SELECT document_id, source_type, source_id, content_type, title, summary, content, author,
       source_created_at AS created_at, metadata, updated_at, expires_at
FROM documents
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s AND document_id = %(document_id)s
  AND (expires_at IS NULL OR expires_at > now())
"""

# A page starts after the last document of the previous page. The total comes with an empty page,
# too.
_PAGE = """
WITH listed AS MATERIALIZED (
    SELECT d.document_id, d.source_created_at
    FROM @filtered_documents AS d
), placed AS (
    SELECT document_id FROM listed
    WHERE %(after_at)s::timestamptz IS NULL
       OR (source_created_at, document_id) < (%(after_at)s::timestamptz, %(after_id)s::uuid)
    ORDER BY source_created_at DESC, document_id DESC
    LIMIT %(limit)s
)
SELECT (SELECT count(*) FROM listed),
       d.document_id, d.source_type, d.source_id, d.content_type, d.title, d.summary, '', d.author,
       d.source_created_at AS created_at, d.metadata, d.updated_at, d.expires_at
FROM (SELECT) AS always
LEFT JOIN placed AS p ON true
LEFT JOIN documents AS d ON d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s
     AND d.document_id = p.document_id
ORDER BY d.source_created_at DESC, d.document_id DESC
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


def read_document(scope: Scope, document_id: UUID) -> Statement[Document | None]:
    """The whole document, or None if the user has none with this id."""
    return Statement(
        _READ,
        scope.bind(document_id=document_id),
        lambda rows: Document(*rows[0]) if rows else None,
    )


def page(
    scope: Scope, filters: PassageFilters, *, after: Sequence[str] | None, limit: int
) -> Statement[tuple[list[Document], list[str] | None, int]]:
    """A page, the newest at the source first, the start of the next one, and the total number."""

    def read(rows: Rows) -> tuple[list[Document], list[str] | None, int]:
        found = [Document(*row[1:]) for row in rows if row[1] is not None]
        last = found[limit - 1] if len(found) > limit else None
        following = [last.created_at.isoformat(), str(last.document_id)] if last else None
        return found[:limit], following, rows[0][0]

    values = scope.bind(
        **filters.parameters(),
        after_at=after[0] if after else None,
        after_id=after[1] if after else None,
        limit=limit + 1,
    )
    return Statement(_PAGE, values, read, planned_anew=True)
