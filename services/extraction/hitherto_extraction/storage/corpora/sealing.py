"""Seals messages and summaries from before encryption was turned on.

The role is hitherto_removal, in a transaction that holds the user's row.
"""

from __future__ import annotations

from hitherto_extraction.storage.corpora import index
from hitherto_extraction.storage.corpora.corpus import ItemKey, SpokenCorpus
from hitherto_shared.database.pool import Connection
from hitherto_shared.encryption.at_hand import key_at_hand
from hitherto_shared.models import Scope


async def seal_some(
    connection: Connection, scope: Scope, corpus: SpokenCorpus, *, limit: int
) -> list[tuple[ItemKey, str]]:
    """Seal texts in clear, and remove them from the indexes with every word and vector.

    Returns their keys, each with the id that its sender gave the text; none: nothing is left.
    """
    key = key_at_hand(scope)
    cursor = await connection.execute(corpus.clear, {**scope.parameters, "limit": limit})
    rows = await cursor.fetchall()
    found = [((row[0], row[1]), row[2]) for row in rows]
    await index.drop(connection, scope, corpus, [item for item, _ in found])
    async with connection.cursor() as many:
        await many.executemany(
            corpus.seal,
            [
                {
                    **scope.parameters,
                    "id": item_id,
                    "number": number,
                    "version": version,
                    "sealed": corpus.sealed(
                        key,
                        dict(zip(corpus.fields, words, strict=True)),
                        item_id,
                        own_id,
                        version,
                    ),
                }
                for item_id, number, own_id, version, *words in rows
            ],
        )
    return found
