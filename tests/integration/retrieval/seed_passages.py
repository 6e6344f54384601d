"""Messages, summaries and documents put straight into the tables, as extraction leaves them there.

Each function is called once for a user: it numbers the texts of its corpus from 1, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async
from psycopg.types.json import Jsonb

from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.identifiers import uuid7
from hitherto_shared.text.normalise import fold, nfc
from hitherto_shared.text.terms import count_terms
from tests.integration.retrieval.seed import REGISTER, segments
from tests.tenants import tenant_of

MODEL = ("test-model", 64)
GROWN = 50
"""Texts of a corpus after which the statistics of its tables are made, as the services' sweep does
soon after such growth: without them a question takes a hundred times as long."""
_TABLES = {
    "messages": "conversations, messages, message_embeddings",
    "summaries": "conversations, conversation_summaries, summary_embeddings",
    "documents": "documents, document_chunks, document_chunk_embeddings, document_mentions",
}
_Cursor = psycopg.AsyncCursor[Any]


@dataclass(frozen=True)
class Turn:
    """One message to be; what is left out is unremarkable. Its id is `m` and its number."""

    content: str
    role: str = "user"
    name: str = ""
    said_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    context_items: Sequence[Mapping[str, Any]] = ()
    message_id: str | None = None
    vector: Vector | None = None


@dataclass(frozen=True)
class Outline:
    """One summary to be. A stale vector was made of an earlier wording."""

    conversation_id: str
    summary: str
    title: str = "Conversation"
    said_at: datetime | None = None
    vector: Vector | None = None
    stale: bool = False


@dataclass(frozen=True)
class Paper:
    """One document to be, by its chunks. `vectors` stand for the chunks in order."""

    source_type: str
    chunks: Sequence[str]
    title: str = ""
    content_type: str = "document"
    made_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    mentions: Sequence[str] = ()
    vectors: Sequence[Vector | None] = ()


async def converse(
    conninfo: str,
    user: str,
    conversations: Mapping[str, Sequence[Turn]],
    *,
    tenant: str | None = None,
    model: tuple[str, int] = MODEL,
) -> list[tuple[str, int]]:
    """Store what was said; the keys of what users and assistants said, by their index numbers.

    Args:
        conninfo: The administrator's way into the database.
        user: Whose conversations they are.
        conversations: Turns by conversation.
        tenant: Whose user that is; None for the one whose rows `conninfo` shows.
        model: Of which the vectors are.
    """
    keys: list[tuple[str, int]] = []
    texts: list[str] = []
    tenant = tenant or tenant_of(conninfo)
    async with await _connected(conninfo) as connection, connection.cursor() as cursor:
        await _register(cursor, tenant, user, model)
        for conversation_id, turns in conversations.items():
            said_at = [turn.said_at or datetime.now(UTC) for turn in turns]
            await cursor.execute(
                "INSERT INTO conversations (tenant_id, user_id, conversation_id, last_message_no,"
                " last_said_at) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (tenant, user, conversation_id, len(turns), max(said_at)),
            )
            rows = []
            for number, turn in enumerate(turns, start=1):
                indexed = turn.role in ("user", "assistant")
                if indexed:
                    keys.append((conversation_id, number))
                    texts.append(f"{turn.name}: {turn.content}" if turn.name else turn.content)
                rows.append(
                    (
                        *(tenant, user, conversation_id, number),
                        *(turn.message_id or f"m{number}", turn.role, turn.name),
                        *(nfc(turn.content), said_at[number - 1]),
                        *(Jsonb(list(turn.context_items)), Jsonb(dict(turn.metadata))),
                        *(len(keys) if indexed else None,),
                        *("none" if turn.vector is None else "stored",),
                    )
                )
            await cursor.executemany(
                "INSERT INTO messages (tenant_id, user_id, conversation_id, message_no,"
                " message_id, role, name, content, said_at, context_items, metadata, lexical_no,"
                " embedding_state) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
                rows,
            )
            await cursor.executemany(
                "INSERT INTO message_embeddings (tenant_id, user_id, conversation_id, message_no,"
                " model, dimensions, embedding) VALUES (%s, %s, %s, %s, %s, %s, %s)",
                [
                    (tenant, user, conversation_id, number, *model, HalfVector(turn.vector))
                    for number, turn in enumerate(turns, start=1)
                    if turn.vector is not None
                ],
            )
        await _index(cursor, tenant, user, "messages", texts)
    return keys


async def sum_up(
    conninfo: str,
    user: str,
    outlines: Sequence[Outline],
    *,
    tenant: str | None = None,
    model: tuple[str, int] = MODEL,
) -> None:
    """Store summaries, and their conversations where there are none yet."""
    tenant = tenant or tenant_of(conninfo)
    async with await _connected(conninfo) as connection, connection.cursor() as cursor:
        await _register(cursor, tenant, user, model)
        await cursor.executemany(
            "INSERT INTO conversations (tenant_id, user_id, conversation_id, last_said_at)"
            " VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            [(tenant, user, outline.conversation_id, outline.said_at) for outline in outlines],
        )
        await cursor.executemany(
            "INSERT INTO conversation_summaries (tenant_id, user_id, conversation_id, title,"
            " summary, covers_to, lexical_no, text_version) VALUES (%s, %s, %s, %s, %s, 0, %s, 2)",
            [
                (tenant, user, outline.conversation_id, outline.title, nfc(outline.summary), number)
                for number, outline in enumerate(outlines, start=1)
            ],
        )
        await cursor.executemany(
            "INSERT INTO summary_embeddings (tenant_id, user_id, conversation_id, model,"
            " dimensions, text_version, embedding) VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [
                (
                    *(tenant, user, outline.conversation_id, *model),
                    *(1 if outline.stale else 2, HalfVector(outline.vector)),
                )
                for outline in outlines
                if outline.vector is not None
            ],
        )
        texts = [f"{outline.title}\n{outline.summary}" for outline in outlines]
        await _index(cursor, tenant, user, "summaries", texts)


async def hand_over(
    conninfo: str,
    user: str,
    papers: Sequence[Paper],
    *,
    tenant: str | None = None,
    model: tuple[str, int] = MODEL,
) -> tuple[list[list[UUID]], dict[str, UUID]]:
    """Store documents; the ids of their chunks in order, and those of the entities by name."""
    chunk_ids = [[uuid7() for _ in paper.chunks] for paper in papers]
    texts = [f"{paper.title}\n{chunk}" for paper in papers for chunk in paper.chunks]
    entities = {name: uuid7() for paper in papers for name in paper.mentions}
    number = 0
    tenant = tenant or tenant_of(conninfo)
    async with await _connected(conninfo) as connection, connection.cursor() as cursor:
        await _register(cursor, tenant, user, model)
        await cursor.executemany(
            "INSERT INTO entities (tenant_id, user_id, entity_id, name, name_key, type, aliases,"
            " mention_count) VALUES (%s, %s, %s, %s, %s, 'person', ARRAY[%s], %s)",
            [
                (
                    *(tenant, user, entity_id, name, fold(name), f"{fold(name)}@example.org"),
                    sum(name in paper.mentions for paper in papers),
                )
                for name, entity_id in entities.items()
            ],
        )
        for paper, ids in zip(papers, chunk_ids, strict=True):
            document_id = uuid7()
            await cursor.execute(
                "INSERT INTO documents (tenant_id, user_id, document_id, source_type, source_id,"
                " content_type, title, content, author, metadata, source_created_at, content_hash,"
                " ingested_heading) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 'An author', %s, %s,"
                " %s, %s)",
                (
                    *(tenant, user, document_id, paper.source_type, str(document_id)),
                    *(paper.content_type, paper.title, "".join(paper.chunks)),
                    *(Jsonb(dict(paper.metadata)), paper.made_at or datetime.now(UTC)),
                    *(bytes(32), paper.title),
                ),
            )
            vectors = [*paper.vectors, *[None] * (len(ids) - len(paper.vectors))]
            for position, (chunk_id, content, vector) in enumerate(
                zip(ids, paper.chunks, vectors, strict=True)
            ):
                number += 1
                # A service that runs would replace the vector of a pending chunk by its own.
                state = "pending" if vector is None else "stored"
                await cursor.execute(
                    "INSERT INTO document_chunks (tenant_id, user_id, document_id, chunk_id,"
                    " position, content, lexical_no, lexical_length, embedding_state)"
                    " VALUES (%s, %s, %s, %s, %s, %s, %s, 1, %s)",
                    (tenant, user, document_id, chunk_id, position, nfc(content), number, state),
                )
                if vector is not None:
                    await cursor.execute(
                        "INSERT INTO document_chunk_embeddings (tenant_id, user_id, chunk_id,"
                        " model, dimensions, embedding) VALUES (%s, %s, %s, %s, %s, %s)",
                        (tenant, user, chunk_id, *model, HalfVector(vector)),
                    )
            await cursor.executemany(
                "INSERT INTO document_mentions (tenant_id, user_id, entity_id, document_id)"
                " VALUES (%s, %s, %s, %s)",
                [(tenant, user, entities[name], document_id) for name in paper.mentions],
            )
        await _index(cursor, tenant, user, "documents", texts)
    return chunk_ids, entities


async def _connected(conninfo: str) -> psycopg.AsyncConnection[Any]:
    connection = await psycopg.AsyncConnection.connect(conninfo)
    await register_vector_async(connection)
    return connection


async def _register(cursor: _Cursor, tenant: str, user: str, model: tuple[str, int]) -> None:
    await cursor.execute(
        "INSERT INTO users (tenant_id, user_id) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        (tenant, user),
    )
    await cursor.execute(REGISTER, model)


async def _index(
    cursor: _Cursor, tenant: str, user: str, corpus: str, texts: Sequence[str]
) -> None:
    terms = [count_terms(nfc(text)) for text in texts]
    await cursor.executemany(
        "INSERT INTO passage_postings (tenant_id, user_id, corpus, term, segment, lexical_nos,"
        " frequencies, lengths) VALUES (%s, %s, %s, %s, %s, %s, %s::smallint[], %s::smallint[])",
        [(tenant, user, corpus, *segment) for segment in segments(terms)],
    )
    await cursor.execute(
        "INSERT INTO passage_statistics (tenant_id, user_id, corpus, last_lexical_no, texts, terms)"
        " VALUES (%s, %s, %s, %s, %s, %s)",
        (tenant, user, corpus, len(texts), len(texts), sum(counts.total() for counts in terms)),
    )
    if len(texts) >= GROWN:
        await cursor.execute(f"ANALYZE {_TABLES[corpus]}, passage_postings")
