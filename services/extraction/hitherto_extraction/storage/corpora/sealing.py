"""Seals messages and summaries from before encryption was turned on.

The role is hitherto_removal, in a transaction that holds the user's row.
"""

from __future__ import annotations

from typing import Any

from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.corpus import SpokenCorpus
from hitherto_extraction.storage.sealed_rows import seal_rows
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope


async def seal_some(
    connection: Connection, scope: Scope, corpus: SpokenCorpus, *, limit: int
) -> list[dict[str, Any]]:
    """Seal texts in clear, and remove them from the indexes with every word and vector.

    Returns their rows as they were; none: nothing is left.
    """
    return await seal_rows(
        connection,
        scope,
        corpus.row,
        corpus.clear,
        corpus.seal,
        before=lambda rows: index.drop(
            connection, scope, corpus, [(row["id"], row["number"]) for row in rows]
        ),
        limit=limit,
    )
