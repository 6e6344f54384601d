"""Reads whole document chunks, each with the header of its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.database.arrays import Uuids
from hitherto_shared.models import Scope

_BY_IDS = """
SELECT c.chunk_id, c.document_id, d.source_type, d.source_id, d.content_type, d.title, d.summary,
       c.content, c.position, d.author, d.source_created_at AS created_at, d.metadata
FROM unnest(%(chunk_ids)s::uuid[]) WITH ORDINALITY AS k (chunk_id, place)
JOIN document_chunks AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
     AND c.chunk_id = k.chunk_id
JOIN documents AS d ON d.tenant_id = %(tenant_id)s AND d.user_id = %(user_id)s
     AND d.document_id = c.document_id AND (d.expires_at IS NULL OR d.expires_at > now())
ORDER BY k.place
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a document; all fields but `chunk_id`, `content` and `position` are the document's.

    `position` is 0 for the first part, `created_at` is the document's creation time at its source.
    """

    chunk_id: UUID
    document_id: UUID
    source_type: str
    source_id: str
    content_type: str
    title: str
    summary: str
    content: str
    position: int
    author: str
    created_at: datetime
    metadata: Mapping[str, Any]


def by_ids(scope: Scope, chunk_ids: Sequence[UUID]) -> Statement[list[Chunk]]:
    """Chunks in the order of their ids; ids that do not belong to the user are left out."""
    return Statement(
        _BY_IDS,
        scope.bind(chunk_ids=Uuids(chunk_ids)),
        lambda rows: [Chunk(*row) for row in rows],
    )
