"""What is sealed, put straight into the tables, as the extraction service leaves it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from psycopg.types.json import Jsonb

from hitherto_shared.embeddings.protocol import Embedder
from hitherto_shared.encryption.rows import MEMORY, MESSAGE, PROFILE, SUMMARY, VECTOR
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.identifiers import uuid7
from hitherto_shared.text.normalise import nfc
from tests.integration.retrieval.seed import REGISTER, Fact
from tests.integration.retrieval.seed_passages import Turn
from tests.rows import inserting

_USER = """
INSERT INTO users (tenant_id, user_id, encrypt_sensitive) VALUES (%s, %s, true)
ON CONFLICT (tenant_id, user_id) DO UPDATE SET encrypt_sensitive = true
"""


def words_of(fact: Fact) -> dict[str, Any]:
    return {
        "content": nfc(fact.content),
        "detail": "",
        "tags": list(fact.tags),
        "keywords": [],
        "context": {},
        "metadata": dict(fact.metadata),
    }


async def hide(
    conninfo: str, key: UserKey, facts: Sequence[Fact], *, embedder: Embedder | None = None
) -> list[UUID]:
    """Store sealed memories of the key's user; their ids in order.

    Args:
        conninfo: The administrator's way into the database.
        key: What seals them.
        facts: What is remembered. Entities are left out: nothing sealed mentions one.
        embedder: Makes their vectors; without it only facts that bring one have one.
    """
    ids = [uuid7() for _ in facts]
    vectors = [fact.vector for fact in facts]
    model = ("test-model", 64)
    if embedder is not None:
        model = (embedder.name, embedder.dimensions)
        vectors = list((await embedder.embed([nfc(fact.content) for fact in facts])).vectors)
    async with await psycopg.AsyncConnection.connect(conninfo) as connection:
        await connection.execute(_USER, (key.tenant_id, key.user_id))
        await connection.execute(REGISTER, model)
        for memory_id, fact, vector in zip(ids, facts, vectors, strict=True):
            created_at = fact.created_at or datetime.now(UTC)
            said_at = fact.valid_from or created_at
            successor = uuid7() if fact.status in ("superseded", "contradicted") else None
            await connection.execute(
                "WITH numbered AS (UPDATE users SET last_lexical_no = last_lexical_no + 1"
                " WHERE tenant_id = %(tenant)s AND user_id = %(user)s RETURNING last_lexical_no)"
                " INSERT INTO memories (tenant_id, user_id, memory_id, type, content, importance,"
                " confidence, source, origin, status, conversation_id, valid_from, said_at,"
                " created_at, updated_at, expires_at, superseded_by, lexical_no, lexical_length,"
                " sensitive, embedding_state, sealed) SELECT %(tenant)s, %(user)s, %(id)s,"
                " %(type)s, '', %(importance)s, %(confidence)s, %(source)s, 'user', %(status)s,"
                " %(conversation)s, %(said)s, %(said)s, %(created)s, %(created)s, %(expires)s,"
                " %(successor)s, last_lexical_no, 0, true, 'sealed', %(sealed)s FROM numbered",
                {
                    "tenant": key.tenant_id,
                    "user": key.user_id,
                    "id": memory_id,
                    "type": fact.type,
                    "importance": fact.importance,
                    "confidence": fact.confidence,
                    "source": fact.source,
                    "status": fact.status,
                    "conversation": fact.conversation_id,
                    "said": said_at,
                    "created": created_at,
                    "expires": fact.expires_at,
                    "successor": successor,
                    "sealed": key.seal(words_of(fact), MEMORY.place(memory_id)),
                },
            )
            if vector is not None:
                half = np.asarray(vector).astype("<f2").tobytes()
                row = {"memory_id": memory_id, "model": model[0], "dimensions": model[1]}
                row |= {
                    **_of(key),
                    "sealed": key.seal_bytes(half, VECTOR.place(memory_id, model[0])),
                }
                await connection.execute(inserting("sealed_embeddings", row), row)
    return ids


def hide_turns(
    conninfo: str, key: UserKey, conversation_id: str, turns: Sequence[Turn], *, summary: str = ""
) -> None:
    """Store a sealed conversation, and with `summary` what it came to, title and all."""
    place = {**_of(key), "conversation_id": conversation_id}
    said_at = [turn.said_at or datetime.now(UTC) for turn in turns]
    with psycopg.connect(conninfo) as connection:
        connection.execute(_USER.encode(), (key.tenant_id, key.user_id))
        going = {"last_message_no": len(turns), "last_said_at": max(said_at)}
        _put(connection, "conversations", **place, **going)
        for number, (turn, moment) in enumerate(zip(turns, said_at, strict=True), start=1):
            message_id = turn.message_id or f"m{number}"
            words = {
                "content": nfc(turn.content),
                "name": turn.name,
                "context_items": list(turn.context_items),
                "metadata": dict(turn.metadata),
            }
            sealed = key.seal(words, MESSAGE.place(conversation_id, message_id))
            said = {"message_no": number, "message_id": message_id, "role": turn.role}
            hidden = {"content": "", "embedding_state": "none", "sealed": sealed}
            _put(connection, "messages", **place, **said, said_at=moment, **hidden)
        if summary:
            outline = {
                "title": f"About {summary}",
                "summary": nfc(summary),
                "key_topics": [summary],
                "technical_topics": [],
                "followup_suggestions": [f"Ask again about {summary}"],
            }
            sealed = key.seal(outline, SUMMARY.place(conversation_id))
            hidden = {"title": "", "embedding_state": "none", "sealed": sealed}
            came_to = {"outcome": "resolved", "covers_to": len(turns)}
            _put(connection, "conversation_summaries", **place, **came_to, **hidden)


def hide_profile(conninfo: str, key: UserKey, *versions: Mapping[str, Any]) -> None:
    """Store a sealed profile, each of `versions` after the other, with its history."""
    of, last = _of(key), len(versions)
    with psycopg.connect(conninfo) as connection:
        connection.execute(_USER.encode(), (key.tenant_id, key.user_id))
        sealed = key.seal(versions[-1], PROFILE.place(last))
        _put(connection, "profiles", **of, department="sales", sealed=sealed, version=last)
        for version, values in enumerate(versions, start=1):
            made = {**of, "version": version, "actor": "ana"}
            sealed = key.seal(values, PROFILE.place(version))
            _put(connection, "profile_versions", **made, profile=Jsonb({}), sealed=sealed)
            action = "created" if version == 1 else "updated"
            event = {"event_id": uuid7(), "subject": "profile", "action": action, "reason": ""}
            _put(connection, "history", **made, **event, after=Jsonb({}))


def _of(key: UserKey) -> dict[str, Any]:
    return {"tenant_id": key.tenant_id, "user_id": key.user_id}


def _put(connection: psycopg.Connection[Any], table: str, **row: Any) -> None:
    connection.execute(inserting(table, row), row)
