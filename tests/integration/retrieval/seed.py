"""Memories put straight into the tables, as the extraction service leaves them there.

The read side is tried on thousands of rows and on every kind of row; writing them through jobs
would test the other service and take minutes.
"""

from __future__ import annotations

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
        await connection.execute(
            "INSERT INTO users (tenant_id, user_id, last_lexical_no, lexical_documents,"
            " lexical_terms) VALUES (%s, %s, %s, %s, %s)",
            (tenant, user, len(facts), len(facts), sum(sum(t.values()) for t in terms)),
        )
        async with connection.cursor() as cursor:
            await cursor.executemany(
                "INSERT INTO memories (tenant_id, user_id, memory_id, type, content, importance,"
                " confidence, source, origin, status, tags, metadata, conversation_id, valid_from,"
                " said_at, created_at, expires_at, superseded_by, lexical_no, lexical_length)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 'user', %s, %s, %s, %s, %s, %s, %s, %s,"
                " %s, %s, %s)",
                [
                    _row(tenant, user, ids[n], fact, n + 1, sum(terms[n].values()))
                    for n, fact in enumerate(facts)
                ],
            )
            await cursor.executemany(
                "INSERT INTO postings (tenant_id, user_id, term, segment, lexical_nos, frequencies,"
                " lengths) VALUES (%s, %s, %s, %s, %s, %s::smallint[], %s::smallint[])",
                [(tenant, user, *segment) for segment in segments(terms)],
            )
            if model is not None:
                await cursor.execute(REGISTER, model)
                await cursor.executemany(
                    "INSERT INTO memory_embeddings (tenant_id, user_id, memory_id, model,"
                    " dimensions, status, embedding) VALUES (%s, %s, %s, %s, %s, %s, %s)",
                    [
                        (tenant, user, ids[n], *model, fact.status, HalfVector(fact.vector))
                        for n, fact in enumerate(facts)
                        if fact.vector is not None
                    ],
                )
            await _write_sources(cursor, tenant, user, ids, facts)
            await _write_entities(cursor, tenant, user, ids, facts)
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
    key = (tenant_of(conninfo), user, conversation_id)
    async with await psycopg.AsyncConnection.connect(conninfo) as connection:
        await connection.execute(
            "INSERT INTO conversations (tenant_id, user_id, conversation_id, last_said_at)"
            " VALUES (%s, %s, %s, %s)",
            (*key, said_at),
        )
        await connection.execute(
            "INSERT INTO conversation_summaries (tenant_id, user_id, conversation_id, title,"
            " summary, outcome, covers_to) VALUES (%s, %s, %s, %s, %s, %s, 0)",
            (*key, f"About {conversation_id}", summary, outcome),
        )


def _row(
    tenant: str, user: str, memory_id: UUID, fact: Fact, lexical_no: int, length: int
) -> tuple[Any, ...]:
    created_at = fact.created_at or datetime.now(UTC)
    said_at = fact.valid_from or created_at
    successor = uuid7() if fact.status in ("superseded", "contradicted") else None
    return (
        tenant,
        user,
        memory_id,
        fact.type,
        fact.content,
        fact.importance,
        fact.confidence,
        fact.source,
        fact.status,
        list(fact.tags),
        Jsonb(dict(fact.metadata)),
        fact.conversation_id,
        said_at,
        said_at,
        created_at,
        fact.expires_at,
        successor,
        lexical_no,
        length,
    )


def segments(terms: Sequence[Mapping[str, int]]) -> Iterator[tuple[Any, ...]]:
    """The postings of texts by their terms: term, segment, numbers, frequencies and lengths."""
    postings: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for n, counts in enumerate(terms, start=1):
        for term, frequency in counts.items():
            postings[term].append((n, frequency, sum(counts.values())))
    for term, entries in postings.items():
        for start in range(0, len(entries), _SEGMENT):
            part = [list(column) for column in zip(*entries[start : start + _SEGMENT], strict=True)]
            yield (term, start // _SEGMENT, *part)


async def _write_sources(
    cursor: psycopg.AsyncCursor[Any],
    tenant: str,
    user: str,
    ids: Sequence[UUID],
    facts: Sequence[Fact],
) -> None:
    await cursor.executemany(
        "INSERT INTO memory_sources (tenant_id, user_id, memory_id, conversation_id, message_id)"
        " VALUES (%s, %s, %s, %s, 'm1')",
        [
            (tenant, user, memory_id, conversation)
            for memory_id, fact in zip(ids, facts, strict=True)
            for conversation in (fact.conversation_id, *fact.also_said_in)
            if conversation is not None
        ],
    )


async def _write_entities(
    cursor: psycopg.AsyncCursor[Any],
    tenant: str,
    user: str,
    ids: Sequence[UUID],
    facts: Sequence[Fact],
) -> None:
    mentions: dict[str, list[UUID]] = defaultdict(list)
    for memory_id, fact in zip(ids, facts, strict=True):
        for name in fact.entities:
            mentions[name].append(memory_id)
    for name, mentioned_in in mentions.items():
        entity_id = uuid7()
        await cursor.execute(
            "INSERT INTO entities (tenant_id, user_id, entity_id, name, name_key, type,"
            " mention_count) VALUES (%s, %s, %s, %s, %s, 'topic', %s)",
            (tenant, user, entity_id, name, fold(name), len(mentioned_in)),
        )
        await cursor.executemany(
            "INSERT INTO entity_mentions (tenant_id, user_id, entity_id, memory_id)"
            " VALUES (%s, %s, %s, %s)",
            [(tenant, user, entity_id, memory_id) for memory_id in mentioned_in],
        )
