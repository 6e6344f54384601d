"""Messages, summaries and documents for a list without a question: the newest, and their number."""

from __future__ import annotations

from datetime import datetime

from hitherto_retrieval.storage.candidate import Key, Kind
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Rows, Statement
from hitherto_shared.models import Scope

_MESSAGES = """
SELECT least(m.said_at, m.accepted_at) AS said_by_then, count(*) OVER (), m.conversation_id,
       m.message_no
FROM @filtered_messages AS m
ORDER BY said_by_then DESC, m.conversation_id DESC, m.message_no DESC
LIMIT %(limit)s
"""

_SUMMARIES = """
SELECT s.happened_at, count(*) OVER (), s.conversation_id
FROM @filtered_summaries AS s
ORDER BY s.happened_at DESC, s.conversation_id DESC
LIMIT %(limit)s
"""

# A document is represented by its beginning.
_DOCUMENTS = """
SELECT d.source_created_at, count(*) OVER (), c.chunk_id
FROM @filtered_documents AS d
JOIN document_chunks AS c ON c.tenant_id = %(tenant_id)s AND c.user_id = %(user_id)s
     AND c.document_id = d.document_id AND c.position = 0
ORDER BY d.source_created_at DESC, d.document_id DESC
LIMIT %(limit)s
"""

_OF_KIND = {"message": _MESSAGES, "summary": _SUMMARIES, "document": _DOCUMENTS}


Listed = tuple[datetime, Kind, Key]
"""When an item happened, its kind and its key."""


def page(
    scope: Scope, kind: Kind, filters: PassageFilters, *, limit: int
) -> Statement[tuple[list[Listed], int]]:
    """The newest messages, summaries or documents that pass `filters`, and their total number."""

    def read(rows: Rows) -> tuple[list[Listed], int]:
        found: list[Listed] = [
            (happened_at, kind, tuple(key) if len(key) > 1 else key[0])
            for happened_at, _, *key in rows
        ]
        return found, rows[0][1] if rows else 0

    return Statement(
        _OF_KIND[kind],
        scope.bind(**filters.parameters(), limit=limit),
        read,
        planned_anew=True,
    )
