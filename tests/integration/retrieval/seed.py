"""Memories put straight into the tables, as the extraction service leaves them there.

The read side is tried on thousands of rows and on every kind of row; writing them through jobs
would test the other service and take minutes.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async
from psycopg.types.json import Jsonb

from hitherto_shared.embeddings.protocol import Embedder, Vector
from hitherto_shared.identifiers import uuid7
from hitherto_shared.text.normalise import fold, nfc
from hitherto_shared.text.terms import count_terms
from tests.rows import put
from tests.tenants import tenant_of

TENANT = "default"
_SEGMENT = 256
REGISTER = """
INSERT INTO embedding_models (model, dimensions, active)
VALUES (%s, %s, NOT EXISTS (SELECT FROM embedding_models WHERE active)) ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True)
class Fact:
    """One memory to be; what is left out is unremarkable. `vector` wins over an embedder's."""

    content: str
    type: str = "fact"
    importance: float = 0.5
    confidence: str = "high"
    source: str = "conversation"
    status: str = "active"
    tags: Sequence[str] = ()
    entities: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    conversation_id: str | None = None
    also_said_in: Sequence[str] = ()
    created_at: datetime | None = None
    valid_from: datetime | None = None
    expires_at: datetime | None = None
    vector: Vector | None = None


async def remember(
    conninfo: str,
    user: str,
    facts: Sequence[Fact],
    *,
    embedder: Embedder | None = None,
    model: tuple[str, int] | None = None,
) -> list[UUID]:
    """Store `facts` of one new user; their ids in order.

    Args:
        conninfo: The administrator's way into the database, or to one tenant's rows of it.
        user: Whose memories they are; nothing is stored about this user yet.
        facts: What is remembered.
        embedder: Makes the vectors of facts that bring none; without one these have none.
        model: Name and dimensions of the model the facts' own vectors are of.
    """
    tenant = tenant_of(conninfo)
    facts = [replace(fact, content=nfc(fact.content)) for fact in facts]
    if embedder is not None:
        model = (embedder.name, embedder.dimensions)
        vectors = (await embedder.embed([fact.content for fact in facts])).vectors
        facts = [
            fact if fact.vector is not None else replace(fact, vector=vector)
            for fact, vector in zip(facts, vectors, strict=True)
        ]
    ids = [uuid7() for _ in facts]
    terms = [count_terms(fact.content) for fact in facts]
    async with await psycopg.AsyncConnection.connect(conninfo) as connection:
        await register_vector_async(connection)
        cursor = connection.cursor()
        of = {"tenant_id": tenant, "user_id": user}
        numbers = {"last_lexical_no": len(facts), "lexical_documents": len(facts)}
        lengths = [sum(counts.values()) for counts in terms]
        await put(cursor, "users", [{**numbers, "lexical_terms": sum(lengths)}], of)
        rows = (_row(*each) for each in zip(ids, facts, itertools.count(1), lengths, strict=False))
        await put(cursor, "memories", rows, of, {"origin": "user"})
        await put(cursor, "postings", segments(terms), of)
        if model is not None:
            await cursor.execute(REGISTER, model)
            vectors_of_facts = [
                {
                    "memory_id": memory_id,
                    "status": fact.status,
                    "embedding": HalfVector(fact.vector),
                }
                for memory_id, fact in zip(ids, facts, strict=True)
                if fact.vector is not None
            ]
            made_by = {"model": model[0], "dimensions": model[1]}
            await put(cursor, "memory_embeddings", vectors_of_facts, of, made_by)
        sources = [
            {"memory_id": memory_id, "conversation_id": conversation}
            for memory_id, fact in zip(ids, facts, strict=True)
            for conversation in (fact.conversation_id, *fact.also_said_in)
            if conversation is not None
        ]
        await put(cursor, "memory_sources", sources, of, {"message_id": "m1"})
        for name in dict.fromkeys(name for fact in facts for name in fact.entities):
            named = [
                {"memory_id": memory_id}
                for memory_id, fact in zip(ids, facts, strict=True)
                for each in fact.entities
                if each == name
            ]
            entity = {**of, "entity_id": uuid7()}
            called = {"name": name, "name_key": fold(name), "type": "topic"}
            await put(cursor, "entities", [{**called, "mention_count": len(named)}], entity)
            await put(cursor, "entity_mentions", named, entity)
    return ids


async def summarise(
    conninfo: str,
    user: str,
    conversation_id: str,
    summary: str,
    *,
    said_at: datetime,
    outcome: str = "ongoing",
) -> None:
    """Store a conversation with its summary; the user must exist."""
    key = {
        "tenant_id": tenant_of(conninfo), "user_id": user, "conversation_id": conversation_id
    }  # fmt: skip
    told = {"title": f"About {conversation_id}", "summary": summary, "outcome": outcome}
    async with (
        await psycopg.AsyncConnection.connect(conninfo) as connection,
        connection.cursor() as cursor,
    ):
        await put(cursor, "conversations", [{"last_said_at": said_at}], key)
        await put(cursor, "conversation_summaries", [told], key, {"covers_to": 0})


def _row(memory_id: UUID, fact: Fact, lexical_no: int, length: int) -> dict[str, Any]:
    created_at = fact.created_at or datetime.now(UTC)
    said_at = fact.valid_from or created_at
    plain = ("type", "content", "importance", "confidence", "source", "status", "conversation_id")
    return {
        **{name: getattr(fact, name) for name in (*plain, "expires_at")},
        "memory_id": memory_id,
        "tags": list(fact.tags),
        "metadata": Jsonb(dict(fact.metadata)),
        "valid_from": said_at,
        "said_at": said_at,
        "created_at": created_at,
        "superseded_by": uuid7() if fact.status in ("superseded", "contradicted") else None,
        "lexical_no": lexical_no,
        "lexical_length": length,
    }


def segments(terms: Sequence[Mapping[str, int]]) -> Iterator[dict[str, Any]]:
    """The rows of postings of texts by their terms."""
    postings: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for n, counts in enumerate(terms, start=1):
        for term, frequency in counts.items():
            postings[term].append((n, frequency, sum(counts.values())))
    names = ("lexical_nos", "frequencies", "lengths")
    for term, entries in postings.items():
        for start in range(0, len(entries), _SEGMENT):
            part = map(list, zip(*entries[start : start + _SEGMENT], strict=True))
            columns = dict(zip(names, part, strict=True))
            yield {"term": term, "segment": start // _SEGMENT, **columns}
