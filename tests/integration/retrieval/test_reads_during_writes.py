"""What a snapshot answers while its user changes is what the database answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import psycopg
import pytest
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from hitherto_retrieval.snapshots import Snapshots
from hitherto_retrieval.storage import filtered_candidates, people
from hitherto_retrieval.storage.connection_setup import prepare_session
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.loading import Loading
from hitherto_retrieval.storage.snapshot import Snapshot
from hitherto_retrieval.storage.statement import ask
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.identifiers import uuid7
from hitherto_shared.text.bm25 import Scores
from tests.integration.retrieval.seed import TENANT
from tests.integration.retrieval.test_cached_memories import Person, as_found, told, unit
from tests.integration.retrieval.test_cached_passages import DIMENSIONS, talker
from tests.integration.retrieval.test_snapshots import loaded


class Changing:
    """Somebody whose rows change, as services change them and as nobody would."""

    def __init__(self, connection: psycopg.Connection[Any], person: Person, seed: int) -> None:
        self._connection = connection
        self.scope = person.scope
        self.model = person.model
        self.chance = random.Random(seed)
        self._numbers = np.random.default_rng(seed)

    def vector(self) -> HalfVector:
        return HalfVector(unit(self._numbers, self.model[1]))

    def run(self, statement: str, **more: Any) -> None:
        self._connection.execute(
            statement,
            {
                "tenant": TENANT,
                "user": self.scope.user_id,
                "model": self.model[0],
                "dimensions": self.model[1],
                "number": self.chance.randrange(1, 1 << 30),
                "vector": self.vector(),
                "id": uuid7(),
                **more,
            },
        )


OWN = "tenant_id = %(tenant)s AND user_id = %(user)s"
ONE = f"memory_id = (SELECT memory_id FROM memories WHERE {OWN} ORDER BY random() LIMIT 1)"
SOME = f"(SELECT memory_id FROM memories WHERE {OWN} ORDER BY random() LIMIT 3)"
ENTITY = f"(SELECT entity_id FROM entities WHERE {OWN} ORDER BY random() LIMIT 1)"
MESSAGE = (
    "(conversation_id, message_no) = (SELECT conversation_id, message_no FROM messages"
    f" WHERE {OWN} ORDER BY random() LIMIT 1)"
)
CONVERSATION = (
    f"conversation_id = (SELECT conversation_id FROM conversation_summaries WHERE {OWN}"
    " ORDER BY random() LIMIT 1)"
)
NEW_MEMORY = f"""
WITH made AS (
    INSERT INTO memories (tenant_id, user_id, memory_id, type, content, importance, confidence,
        source, origin, status, tags, metadata, valid_from, said_at, lexical_no, lexical_length)
    SELECT tenant_id, user_id, %(id)s, type, content || ' again', importance, confidence, source,
           origin, 'active', tags, metadata, valid_from, said_at, %(number)s, lexical_length
    FROM memories WHERE {OWN} LIMIT 1
    RETURNING memory_id, status
)
INSERT INTO memory_embeddings (tenant_id, user_id, memory_id, model, dimensions, status, embedding)
SELECT %(tenant)s, %(user)s, memory_id, %(model)s, %(dimensions)s, status, %(vector)s FROM made
"""
NEW_MESSAGE = f"""
INSERT INTO messages (tenant_id, user_id, conversation_id, message_no, message_id, role, content,
    said_at)
SELECT tenant_id, user_id, conversation_id, max(message_no) + 1, 'm-' || %(number)s, 'user',
       'something new', now()
FROM messages WHERE {OWN}
GROUP BY 1, 2, 3 ORDER BY random() LIMIT 1
"""
REMOVE = f"""
WITH one AS MATERIALIZED (SELECT memory_id FROM memories WHERE {OWN} ORDER BY random() LIMIT 1),
vector AS (DELETE FROM memory_embeddings WHERE {OWN} AND memory_id IN (SELECT * FROM one)),
words AS (DELETE FROM memory_source_embeddings WHERE {OWN} AND memory_id IN (SELECT * FROM one)),
said AS (DELETE FROM memory_sources WHERE {OWN} AND memory_id IN (SELECT * FROM one)),
named AS (DELETE FROM entity_mentions WHERE {OWN} AND memory_id IN (SELECT * FROM one))
DELETE FROM memories WHERE {OWN} AND memory_id IN (SELECT * FROM one)
"""
UNSAY = f"""
WITH one AS MATERIALIZED (SELECT conversation_id, message_no FROM messages WHERE {OWN}
                          ORDER BY random() LIMIT 1),
vector AS (DELETE FROM message_embeddings
           WHERE {OWN} AND (conversation_id, message_no) IN (SELECT * FROM one))
DELETE FROM messages WHERE {OWN} AND (conversation_id, message_no) IN (SELECT * FROM one)
"""
NO_SUMMARY = f"""
WITH one AS MATERIALIZED (SELECT conversation_id FROM conversation_summaries WHERE {OWN}
                          ORDER BY random() LIMIT 1),
vector AS (DELETE FROM summary_embeddings WHERE {OWN} AND conversation_id IN (SELECT * FROM one))
DELETE FROM conversation_summaries WHERE {OWN} AND conversation_id IN (SELECT * FROM one)
"""
CHANGES: dict[str, str] = {
    "importance": f"UPDATE memories SET importance = random() WHERE {OWN} AND {ONE}",
    "words": "UPDATE memories SET content = content || '!', version = version + 1,"
    f" text_version = text_version + 1 WHERE {OWN} AND {ONE}",
    "forget": "UPDATE memories SET status = 'forgotten', superseded_by = NULL"
    f" WHERE {OWN} AND {ONE}",
    "quarantine": "UPDATE memories SET status = 'quarantined', superseded_by = NULL"
    f" WHERE {OWN} AND {ONE}",
    "restore": "UPDATE memories SET status = 'active', superseded_by = NULL"
    f" WHERE {OWN} AND memory_id IN {SOME}",
    "expire": f"UPDATE memories SET expires_at = now() - interval '1 day' WHERE {OWN} AND {ONE}",
    "learn": NEW_MEMORY,
    "vector": f"UPDATE memory_embeddings SET embedding = %(vector)s WHERE {OWN} AND {ONE}",
    "no vector": f"DELETE FROM memory_embeddings WHERE {OWN} AND {ONE}",
    "source vector": "UPDATE memory_source_embeddings SET embedding = %(vector)s"
    f" WHERE {OWN} AND memory_id IN {SOME}",
    "no source vector": f"DELETE FROM memory_source_embeddings WHERE {OWN} AND memory_id IN {SOME}",
    "source": "INSERT INTO memory_sources (tenant_id, user_id, memory_id, conversation_id,"
    " message_id) SELECT tenant_id, user_id, memory_id, 'c1', 'm1' FROM memories"
    f" WHERE {OWN} AND {ONE} ON CONFLICT DO NOTHING",
    "no source": f"DELETE FROM memory_sources WHERE {OWN} AND memory_id IN {SOME}",
    "mention": "INSERT INTO entity_mentions (tenant_id, user_id, entity_id, memory_id)"
    f" SELECT tenant_id, user_id, {ENTITY}, memory_id FROM memories WHERE {OWN}"
    f" AND {ONE} ON CONFLICT DO NOTHING",
    "no mention": f"DELETE FROM entity_mentions WHERE {OWN} AND memory_id IN {SOME}",
    "entity": "UPDATE entities SET name = name || 'x', mention_count = mention_count + 1"
    f" WHERE {OWN} AND entity_id = {ENTITY}",
    "remove": REMOVE,
    "say": NEW_MESSAGE,
    "unsay": UNSAY,
    "message": f"UPDATE messages SET metadata = '{{\"a\": 1}}' WHERE {OWN} AND {MESSAGE}",
    "message vector": f"UPDATE message_embeddings SET embedding = %(vector)s WHERE {OWN}"
    f" AND {MESSAGE}",
    "no message vector": f"DELETE FROM message_embeddings WHERE {OWN} AND {MESSAGE}",
    "summary": "UPDATE conversation_summaries SET summary = summary || '!',"
    f" text_version = text_version + 1 WHERE {OWN} AND {CONVERSATION}",
    "summary vector": f"UPDATE summary_embeddings SET embedding = %(vector)s WHERE {OWN}"
    f" AND {CONVERSATION}",
    "no summary vector": f"DELETE FROM summary_embeddings WHERE {OWN} AND {CONVERSATION}",
    "no summary": NO_SUMMARY,
    "spoke": f"UPDATE conversations SET last_said_at = now() WHERE {OWN} AND {CONVERSATION}",
    "profile": "INSERT INTO profiles (tenant_id, user_id, summary, version)"
    " VALUES (%(tenant)s, %(user)s, 'Likes ' || %(number)s, 1) ON CONFLICT (tenant_id, user_id)"
    " DO UPDATE SET summary = excluded.summary",
    "preference": "INSERT INTO preferences (tenant_id, user_id, type, key, value, confidence,"
    " observations) VALUES (%(tenant)s, %(user)s, 'topics', 'k' || %(number)s, 'true', 0.5, 1)",
    "no preferences": f"DELETE FROM preferences WHERE {OWN}",
    "statistics": f"UPDATE passage_statistics SET texts = texts + 1 WHERE {OWN}",
}


def contents(cached: object) -> Any:
    """All that is held, to be compared."""
    if isinstance(cached, np.ndarray):
        return cached.dtype.str, cached.tolist()
    if type(cached).__module__.startswith("hitherto_retrieval"):
        names = getattr(type(cached), "__slots__", None) or vars(cached)
        return {name: contents(getattr(cached, name)) for name in names}
    return cached


async def load(reader: Database, person: Person) -> Snapshot:
    loading = Loading(person.scope, person.model)
    await reader.run(loading.run, timeout=120)
    snapshot = loading.snapshot()
    assert snapshot is not None
    return snapshot


async def test_order_on_disk_does_not_matter(reader: Database, writing: Writing) -> None:
    """Two loads of one state are equal, wherever Postgres has moved the rows in between."""
    person = writing.person
    before = await load(reader, person)
    for table, index in (
        ("entity_mentions", "entity_mentions_by_memory"),
        ("entities", "entities_pkey"),
        ("memory_sources", "memory_sources_pkey"),
        ("messages", "messages_pkey"),
        ("memories", "memories_pkey"),
    ):
        writing.changing.run(f"CLUSTER {table} USING {index}")
        assert contents(await load(reader, person)) == contents(before), table


async def test_reads_during_writes(conninfo: str, writing: Writing) -> None:
    """Whatever is loaded, erased and written at once, no read is answered from another
    state than its own."""
    person, changing = writing.person, writing.changing
    database = Database(
        conninfo, "hitherto_read", application="test", max_size=5, configure=prepare_session
    )
    await database.open()
    snapshots = Snapshots(database, 64 << 20)
    hits = 0

    async def read(connection: Connection) -> bool:
        async with connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {})
            state = people.user(person.scope)
            await ask(connection, state)
            user = state.answer
            cached = snapshots.of(person.scope, user, database)
            if cached is None:
                return False
            assert not user.erased
            question = unit(np.random.default_rng(changing.chance.randrange(99)), DIMENSIONS)
            words = Scores.of({changing.chance.randrange(1, 25): 1.5})
            sought = ItemQuery(person.scope, words, question, person.model[0], 10)
            found = told(cached.memories.candidates(sought, Filters()))
            statement = filtered_candidates.find(sought, Filters())
            await ask(connection, statement)
            assert found == as_found(statement.answer)
            return True

    async def ask_often() -> int:
        with acting_for(TENANT):
            return sum([await database.run(read, timeout=120) for _ in range(4)])

    def change_often() -> None:
        for name in changing.chance.choices(sorted(CHANGES), k=4):
            changing.run(CHANGES[name])

    loads = loaded()
    try:
        for number in range(8):
            if number == 4:
                changing.run(f"UPDATE users SET erased_at = now() WHERE {OWN}")
            await asyncio.gather(asyncio.to_thread(change_often), ask_often(), ask_often())
            if number == 4:
                assert await ask_often() == 0
                assert person.scope not in snapshots
                changing.run(f"UPDATE users SET erased_at = NULL WHERE {OWN}")
            for _ in range(30):
                await snapshots.loaded()
                if found := await ask_often():
                    hits += found
                    break
    finally:
        await snapshots.stop()
        await database.close()
    assert hits >= 8
    assert loaded() > loads + 1


class Writing:
    """Somebody, and a connection that changes them."""

    def __init__(self, person: Person, changing: Changing) -> None:
        self.person = person
        self.changing = changing


@pytest.fixture
async def writing(
    superuser_conninfo: str, request: pytest.FixtureRequest
) -> AsyncIterator[Writing]:
    """Somebody with some of everything."""
    seed = sum(request.node.name.encode())
    person = await talker(superuser_conninfo, "ana", seed, 25)
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        register_vector(connection)
        yield Writing(person, Changing(connection, person, seed))
