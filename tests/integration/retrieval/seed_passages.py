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
from tests.rows import put
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
        of = await _register(cursor, tenant, user, model)
        for conversation_id, turns in conversations.items():
            place = {**of, "conversation_id": conversation_id}
            said_at = [turn.said_at or datetime.now(UTC) for turn in turns]
            going = {"last_message_no": len(turns), "last_said_at": max(said_at)}
            await put(cursor, "conversations", [going], place, unless_there=True)
            rows = []
            for number, turn in enumerate(turns, start=1):
                indexed = turn.role in ("user", "assistant")
                if indexed:
                    keys.append((conversation_id, number))
                    texts.append(f"{turn.name}: {turn.content}" if turn.name else turn.content)
                rows.append(
                    {
                        "message_no": number,
                        "message_id": turn.message_id or f"m{number}",
                        "role": turn.role,
                        "name": turn.name,
                        "content": nfc(turn.content),
                        "said_at": said_at[number - 1],
                        "context_items": Jsonb(list(turn.context_items)),
                        "metadata": Jsonb(dict(turn.metadata)),
                        "lexical_no": len(keys) if indexed else None,
                        "embedding_state": "none" if turn.vector is None else "stored",
                    }
                )
            await put(cursor, "messages", rows, place)
            vectors = [
                {"message_no": number, "embedding": HalfVector(turn.vector)}
                for number, turn in enumerate(turns, start=1)
                if turn.vector is not None
            ]
            await put(cursor, "message_embeddings", vectors, place, _made_by(model))
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
        of = await _register(cursor, tenant, user, model)
        begun = [
            {"conversation_id": o.conversation_id, "last_said_at": o.said_at} for o in outlines
        ]
        await put(cursor, "conversations", begun, of, unless_there=True)
        summaries = [
            {
                "conversation_id": outline.conversation_id,
                "title": outline.title,
                "summary": nfc(outline.summary),
                "lexical_no": number,
            }
            for number, outline in enumerate(outlines, start=1)
        ]
        told = {"covers_to": 0, "text_version": 2}
        await put(cursor, "conversation_summaries", summaries, of, told)
        vectors = [
            {
                "conversation_id": outline.conversation_id,
                "text_version": 1 if outline.stale else 2,
                "embedding": HalfVector(outline.vector),
            }
            for outline in outlines
            if outline.vector is not None
        ]
        await put(cursor, "summary_embeddings", vectors, of, _made_by(model))
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
        of = await _register(cursor, tenant, user, model)
        known = [
            {
                "entity_id": entity_id,
                "name": name,
                "name_key": fold(name),
                "aliases": [f"{fold(name)}@example.org"],
                "mention_count": sum(name in paper.mentions for paper in papers),
            }
            for name, entity_id in entities.items()
        ]
        await put(cursor, "entities", known, of, {"type": "person"})
        for paper, ids in zip(papers, chunk_ids, strict=True):
            document = {**of, "document_id": uuid7()}
            held = {
                "source_type": paper.source_type,
                "source_id": str(document["document_id"]),
                "content_type": paper.content_type,
                "title": paper.title,
                "content": "".join(paper.chunks),
                "author": "An author",
                "metadata": Jsonb(dict(paper.metadata)),
                "source_created_at": paper.made_at or datetime.now(UTC),
                "content_hash": bytes(32),
                "ingested_heading": paper.title,
            }
            await put(cursor, "documents", [held], document)
            vectors = [*paper.vectors, *[None] * (len(ids) - len(paper.vectors))]
            for position, (chunk_id, content, vector) in enumerate(
                zip(ids, paper.chunks, vectors, strict=True)
            ):
                number += 1
                place = {"chunk_id": chunk_id, "position": position, "lexical_no": number}
                # A service that runs would replace the vector of a pending chunk by its own.
                state = "pending" if vector is None else "stored"
                text = {"content": nfc(content), "lexical_length": 1, "embedding_state": state}
                await put(cursor, "document_chunks", [text], document, place)
                if vector is not None:
                    row = {"chunk_id": chunk_id, "embedding": HalfVector(vector)}
                    await put(cursor, "document_chunk_embeddings", [row], of, _made_by(model))
            mentions = [{"entity_id": entities[name]} for name in paper.mentions]
            await put(cursor, "document_mentions", mentions, document)
        await _index(cursor, tenant, user, "documents", texts)
    return chunk_ids, entities


async def _connected(conninfo: str) -> psycopg.AsyncConnection[Any]:
    connection = await psycopg.AsyncConnection.connect(conninfo)
    await register_vector_async(connection)
    return connection


def _made_by(model: tuple[str, int]) -> dict[str, Any]:
    return {"model": model[0], "dimensions": model[1]}


async def _register(
    cursor: _Cursor, tenant: str, user: str, model: tuple[str, int]
) -> dict[str, Any]:
    """Whose rows they are, once there is the user and the model."""
    of = {"tenant_id": tenant, "user_id": user}
    await put(cursor, "users", [of], unless_there=True)
    await cursor.execute(REGISTER, model)
    return of


async def _index(
    cursor: _Cursor, tenant: str, user: str, corpus: str, texts: Sequence[str]
) -> None:
    terms = [count_terms(nfc(text)) for text in texts]
    of = {"tenant_id": tenant, "user_id": user, "corpus": corpus}
    await put(cursor, "passage_postings", segments(terms), of)
    total = {
        "last_lexical_no": len(texts),
        "texts": len(texts),
        "terms": sum(counts.total() for counts in terms),
    }
    await put(cursor, "passage_statistics", [total], of)
    if len(texts) >= GROWN:
        await cursor.execute(f"ANALYZE {_TABLES[corpus]}, passage_postings")
