"""A whole memory is read with each value in its own field, by every statement that reads one."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from hitherto_retrieval.storage import memories, past
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.database.pool import Database
from hitherto_shared.models import Memory, SourceRef
from tests.integration.retrieval.questions import ANA, answer
from tests.integration.retrieval.seed import TENANT, Fact, remember
from tests.integration.retrieval.seed_passages import Turn, converse

NOW = datetime.now(UTC).replace(microsecond=123_456)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


EXPECTED = Memory(
    memory_id=UUID(int=0),
    user_id="ana",
    type="decision",
    content="Ana chose the blue tent",
    importance=0.625,
    confidence="medium",
    source="inference",
    origin="tool",
    status="achieved",
    valid_from=ago(50),
    created_at=ago(40),
    updated_at=ago(30),
    detail="It was the lighter one",
    tags=["outdoors", "buying"],
    keywords=["tent", "blue"],
    context={"where": "shop"},
    metadata={"rank": 7},
    sensitive=True,
    conversation_id="conversation-1",
    valid_to=ago(-20),
    expires_at=ago(-10),
    superseded_by=UUID(int=11),
    supersedes=[UUID(int=12), UUID(int=13)],
    version=4,
    job_id=UUID(int=14),
    access_count=9,
    last_accessed_at=ago(1),
    sealed=None,
    sources=[SourceRef("conversation-1", "m1"), SourceRef("conversation-2", "m2")],
    entities=["Blue Tents Ltd", "Porto"],
    doubt={"because": str(UUID(int=15)), "reason": "the shop closed", "since": ago(2).isoformat()},
    last_confirmed_at=ago(3),
    worded_in=3,
    evidence=[(SourceRef("conversation-2", "m2"), "the blue one, please")],
)


@pytest.fixture
async def stored(superuser_conninfo: str) -> Memory:
    """A memory that has a value of its own in every column."""
    fact = Fact(EXPECTED.content, entities=EXPECTED.entities)
    # The other one is over, or lists of what counts would show it too.
    older = Fact("Ana wants a red tent", expires_at=ago(1))
    memory_id, older_id = await remember(superuser_conninfo, "ana", [fact, older])
    said = {
        source.conversation_id: [Turn("the blue one, please", message_id=source.message_id)]
        for source in EXPECTED.sources
    }
    await converse(superuser_conninfo, "ana", said)
    memory = replace(EXPECTED, memory_id=memory_id, may_replace=[older_id])
    named = (
        "type importance confidence source origin status valid_from created_at updated_at detail "
        "tags keywords sensitive conversation_id valid_to expires_at superseded_by supersedes "
        "version job_id may_replace last_confirmed_at"
    ).split()
    values: dict[str, Any] = {name: getattr(memory, name) for name in named}
    values |= {name: Jsonb(getattr(memory, name)) for name in ("context", "metadata", "doubt")}
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as connection:
        values["text_version"] = memory.worded_in
        for name, value in values.items():
            await connection.execute(
                f"UPDATE memories SET {name} = %s WHERE memory_id = %s".encode(), [value, memory_id]
            )
        await connection.execute(
            "INSERT INTO memory_access (tenant_id, user_id, memory_id, access_count,"
            " last_accessed_at) VALUES (%s, 'ana', %s, 9, %s)",
            [TENANT, memory_id, memory.last_accessed_at],
        )
        quotes = dict(memory.evidence)
        for source in memory.sources:
            await connection.execute(
                "INSERT INTO memory_sources (tenant_id, user_id, memory_id, conversation_id,"
                " message_id, quote) VALUES (%s, 'ana', %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                [
                    *(TENANT, memory_id, source.conversation_id, source.message_id),
                    quotes.get(source),
                ],
            )
    return memory


async def read(reader: Database, statement: Statement[list[Memory]]) -> dict[str, Any]:
    (found,) = await answer(reader, statement)
    values = {field.name: getattr(found, field.name) for field in fields(Memory)}
    return values | {"supersedes": list(found.supersedes)}


async def test_each_value_is_in_its_field(reader: Database, stored: Memory) -> None:
    expected = {field.name: getattr(stored, field.name) for field in fields(Memory)}
    for statement in (
        memories.by_ids(ANA, [stored.memory_id]),
        memories.top(ANA, limit=5, fresh=2),
        memories.top(ANA, limit=5, fresh=0),
        memories.newest(ANA, limit=5),
        past.whole(ANA, Moment(known_at=datetime.now(UTC)), [stored.memory_id]),
    ):
        found = await read(reader, statement)
        # What a memory was to replace, or be replaced by, may not have been there yet.
        if "known_at" in statement.parameters:
            found |= {name: expected[name] for name in ("supersedes", "superseded_by")}
        assert found == expected
