"""Vectors of texts: which texts lack one, how vectors are stored, and the state of each text.

Texts are found across users with the role hitherto_maintenance. Code that stores vectors holds the
rows of their users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

from pgvector import HalfVector

from hitherto_extraction.storage.corpora.corpus import (
    EmbeddableText,
    EmbeddedCorpus,
    ItemKey,
    PassageCorpus,
    TextKey,
)
from hitherto_extraction.storage.corpora.documents import DOCUMENTS
from hitherto_extraction.storage.corpora.memories import MEMORIES
from hitherto_extraction.storage.corpora.messages import MESSAGES
from hitherto_extraction.storage.corpora.summaries import SUMMARIES
from hitherto_shared.database.arrays import Integers, Texts
from hitherto_shared.database.pool import Connection
from hitherto_shared.database.together import together
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.text.passages import MAX_EMBEDDED

CORPORA: Sequence[EmbeddedCorpus] = (MEMORIES, DOCUMENTS, MESSAGES, SUMMARIES)
"""Every kind of text that has vectors."""
_AT_ONCE = 256

MadeVectors = Mapping[EmbeddableText, Sequence[Vector]]
"""The vectors of texts: one for each of their contents."""


async def find_pending(
    connection: Connection, corpus: EmbeddedCorpus, *, limit: int, without: Collection[str] = ()
) -> list[EmbeddableText]:
    """The texts that have waited longest for a vector, except those of some tenants."""
    return await _texts(
        connection, corpus, corpus.pending, {"without": list(without), "limit": limit}
    )


async def find_without(
    connection: Connection, corpus: EmbeddedCorpus, model: str, *, after: TextKey | None, limit: int
) -> list[EmbeddableText]:
    """The next texts without a vector of their present words, of those that are to have one."""
    tenant_id, user_id, item_id, number = after or ("", "", corpus.first_id, 0)
    values = {
        "tenant_id": tenant_id,
        "user_id": user_id,
        "id": item_id,
        "number": number,
        "model": model,
        "limit": limit,
    }
    return await _texts(connection, corpus, corpus.without, values)


async def write(
    connection: Connection,
    corpus: EmbeddedCorpus,
    vectors: MadeVectors,
    *,
    model: str,
    length: int | None,
) -> None:
    """Store vectors of texts of any user.

    Left out are those of texts that are gone, sealed or reworded, and those of another length than
    `length`, the one that is registered for the model (`registered_length`). The statements do not
    look it up: with a table that all nodes have, Citus would send them to every shard.
    """
    left = iter(vectors.items())
    while some := dict(islice(left, _AT_ONCE)):
        each = {text: of[0] for text, of in some.items()}
        await _insert(connection, corpus.write, each, model, length)
        if corpus.write_sources:
            sources = {text: of[1] for text, of in some.items() if len(of) > 1}
            await _insert(connection, corpus.write_sources, sources, model, length)


async def write_stored(
    connection: Connection,
    corpus: EmbeddedCorpus,
    vectors: MadeVectors,
    *,
    model: str,
    length: int | None,
) -> None:
    """`write`, and `settle` as `stored`, for a caller that need not know how many were marked."""
    await write(connection, corpus, vectors, model=model, length=length)
    await connection.later_for_each(
        corpus.settle,
        [{**values, "model": model, "state": "stored"} for values in _columns(vectors)],
    )


async def settle(
    connection: Connection,
    corpus: EmbeddedCorpus,
    texts: Collection[EmbeddableText],
    *,
    model: str,
    state: str,
) -> int:
    """Mark waiting texts as `stored` or `refused`, if `model` is still active.

    Only those that still have the words that were embedded. Returns how many were marked.
    """
    settled = [
        connection.execute(corpus.settle, {**values, "model": model, "state": state})
        for values in _columns(texts)
    ]
    return sum(each.rowcount for each in await together(connection, *settled))


async def activate(connection: Connection, model: str) -> None:
    """Let texts that lack a vector of the newly active model wait for one, and no others."""
    for corpus in CORPORA:
        await connection.execute(corpus.expect, {"model": model})


async def delete(user: UserRows, corpus: PassageCorpus, keys: Collection[ItemKey]) -> int:
    """Delete the vectors of texts, of every model; returns their number."""
    return (await user.execute(corpus.delete_vectors, **key_columns(keys))).rowcount


def key_columns(keys: Collection[ItemKey]) -> dict[str, Any]:
    """Texts of one user as parameters of the statements of a corpus."""
    return {
        "ids": Texts(item_id for item_id, _ in keys),
        "numbers": Integers(number for _, number in keys),
    }


async def _texts(
    connection: Connection, corpus: EmbeddedCorpus, statement: str, values: Mapping[str, Any]
) -> list[EmbeddableText]:
    rows = await connection.fetch_rows(statement, {**values, "characters": MAX_EMBEDDED})
    return [
        EmbeddableText((tenant_id, user_id, item_id, number), corpus.contents(*words))
        for tenant_id, user_id, item_id, number, *words in rows
    ]


async def _insert(
    connection: Connection,
    statement: str,
    vectors: Mapping[EmbeddableText, Vector],
    model: str,
    length: int | None,
) -> None:
    if vectors and len(next(iter(vectors.values()))) == length:
        await connection.later_for_each(
            statement,
            [
                {
                    **values,
                    "model": model,
                    "dimensions": length,
                    "vectors": [HalfVector(vectors[text]) for text in values["texts"]],
                }
                for values in _columns(vectors)
            ],
        )


def _columns(texts: Collection[EmbeddableText]) -> list[dict[str, Any]]:
    """Texts as parameters of the statements of a corpus, user by user."""
    by_user: dict[tuple[str, str], list[EmbeddableText]] = {}
    for text in sorted(texts, key=lambda text: text.key[:2]):
        by_user.setdefault(text.key[:2], []).append(text)
    return [
        {
            "tenant_id": tenant_id,
            "user_id": user_id,
            "texts": those,
            **key_columns([text.key[2:] for text in those]),
            "sources": Texts("".join(text.contents[1:]) for text in those),
        }
        for (tenant_id, user_id), those in by_user.items()
    ]
