"""A database that was never analysed: what is learnt and read keeps its bound (faults.md row 76).

Statistics come some minutes after the rows. Until then Postgres takes every user for one who has a
single memory, so that no statement may depend on a better guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from pgvector.psycopg import register_vector

from hitherto.v1 import job_pb2
from hitherto_extraction.storage import known_memories, mentions
from hitherto_retrieval.storage import conversations, memories, message_candidates, neighbours
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.database.fragments import expanded
from hitherto_shared.identifiers import uuid7
from hitherto_shared.models import Scope
from tests.e2e.conftest import StartServices, model_settings
from tests.e2e.importing import bring
from tests.e2e.learning import ended, rows, submit, talk
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel
from tests.scripted_model.answers import memory
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_sweeps")

A_REPLY = 200
"""Memories of one reply."""
LONG = 45.0
"""Seconds that nothing takes here even on a busy machine; a loop within a loop took 60 and more."""
IMPORTED = 400
"""Messages of an import, from each of which something was learnt."""
ANA = Scope("default", "ana")
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def facts(number: int) -> list[dict[str, Any]]:
    """Statements that no guard takes for one another, the `number`-th batch of them."""
    first = number * A_REPLY
    return [
        memory(
            f"The user owns item w{n * 7919 % 100003} at place p{n * 31 % 977}",
            entities=[{"name": f"p{n * 31 % 977}", "type": "location"}],
        )
        for n in range(first, first + A_REPLY)
    ]


def script(request: ChatRequest) -> ChatAnswer:
    """The batch whose number the user says."""
    return ChatAnswer.of(new_memories=facts(int(request.messages[0].content.split()[-1])))


@pytest.fixture
def without_autovacuum(superuser_conninfo: str) -> str:
    """The database, whose tables only our own sweep analyses."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname = 'hitherto'"
        ).fetchall()
        for (table,) in tables:
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode())
    return superuser_conninfo


@pytest.fixture
def never_analysed(without_autovacuum: str) -> str:
    """The same without the sweep: as it is in the minutes before statistics come."""
    with psycopg.connect(without_autovacuum, autocommit=True) as connection:
        connection.execute(
            "CREATE OR REPLACE FUNCTION hitherto.analyse_grown() RETURNS text"
            " LANGUAGE sql AS 'SELECT NULL::text'"
        )
    return without_autovacuum


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


async def test_row_76_two_hundred_new_memories_a_reply_keep_the_bound(
    start_services: StartServices, model: ScriptedModel, never_analysed: str
) -> None:
    model.script = script
    settings = model_settings(model) | {"embedding_dimensions": 1536, "consolidate_above": 1000}
    async with start_services(**settings) as services:
        for number in range(3):
            (job_id,) = await submit(services, talk(f"number {number}", conversation=f"c{number}"))
            job = await ended(services, job_id, within=LONG)
            assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1), job.error
            assert job.result.memories_created == A_REPLY
        # One call a transcript: no commit was given up and asked for again.
        assert model.calls["chat"] == 3
        assert rows(never_analysed, "SELECT count(*) FROM pg_stats WHERE tablename = 'memories'")[
            0
        ] == (0,)
    with psycopg.connect(never_analysed) as connection:
        register_vector(connection)
        ((vector,),) = connection.execute(
            "SELECT embedding FROM memory_embeddings LIMIT 1"
        ).fetchall()
        ids = {
            name: connection.execute(f"SELECT {name} FROM entity_mentions".encode()).fetchall()
            for name in ("entity_id", "memory_id")
        }
        parameters = {
            "tenant_id": "default",
            "user_id": "ana",
            "positions": list(range(A_REPLY)),
            "types": ["fact"] * A_REPLY,
            "vectors": [vector] * A_REPLY,
            "contents": ["The user owns nothing"] * A_REPLY,
            "model": settings.get("embedding_model", "text-embedding-3-small"),
            "at_least": 0.85,
            "fewest": 5,
            "limit": 5,
            "most_bytes": 1000,
            "entity_ids": [found for (found,) in ids["entity_id"]],
            "memory_ids": [found for (found,) in ids["memory_id"]],
        }
        assert len(parameters["memory_ids"]) == 3 * A_REPLY
        for statement in (
            known_memories._NEIGHBOURS,
            known_memories._SAME_WORDS,
            mentions._BY_ENTITY,
            mentions._ENTITIES,
        ):
            ((plans,),) = connection.execute(
                b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement.encode(), parameters
            ).fetchall()
            for node in nodes(plans[0]["Plan"]):
                # Each table is read once, whatever the plan.
                if "Relation Name" in node:
                    assert node["Actual Loops"] == 1, node
                if "Join" in node["Node Type"] or node["Node Type"] == "Nested Loop":
                    filtered = node.get("Rows Removed by Join Filter", 0)
                    assert filtered <= A_REPLY * 3 * A_REPLY, node
        # With statistics, nothing goes to disk: else saving one statement copies all vectors.
        connection.execute("ANALYZE memories, memory_embeddings")
        connection.execute("SET work_mem = '1MB'")
        one = {
            name: value[:1] if isinstance(value, list) else value
            for name, value in parameters.items()
        }
        for statement in (known_memories._NEIGHBOURS, known_memories._SAME_WORDS):
            ((plans,),) = connection.execute(
                b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement.encode(), one
            ).fetchall()
            assert plans[0]["Plan"]["Temp Written Blocks"] == 0
        # However many are near, their contents have a bound; the nearest come in any case.
        one |= {"at_least": -1.0, "fewest": 2, "limit": A_REPLY}
        for most, fewest_found, most_found in ((0, 2, 2), (500, 5, 20), (10**6, A_REPLY, A_REPLY)):
            near = connection.execute(
                known_memories._NEIGHBOURS.encode(), one | {"most_bytes": most}
            ).fetchall()
            assert fewest_found <= len(near) <= most_found
    # Enough was there to look through.
    assert rows(never_analysed, "SELECT count(*) FROM memory_embeddings") == [(3 * A_REPLY,)]


async def test_row_23_a_table_that_has_grown_is_analysed_without_autovacuum(
    start_services: StartServices, without_autovacuum: str
) -> None:
    """Until then a user's every row is read where one by its key was meant."""
    known = "SELECT count(*) > 0 FROM pg_stats WHERE schemaname = 'hitherto' AND tablename = '{}'"
    async with start_services():
        assert rows(without_autovacuum, known.format("conversations")) == [(False,)]
        rows(
            without_autovacuum,
            "INSERT INTO hitherto.users (tenant_id, user_id)"
            " SELECT 'default', 'u' || n FROM generate_series(1, 40) AS n RETURNING 1",
        )
        rows(
            without_autovacuum,
            "INSERT INTO hitherto.conversations (tenant_id, user_id, conversation_id)"
            " SELECT 'default', 'u' || n % 40 + 1, 'c' || n FROM generate_series(1, 250) AS n"
            " RETURNING 1",
        )
        await eventually(
            lambda: rows(without_autovacuum, known.format("conversations")) == [(True,)]
        )
        # A table that has hardly changed is left alone.
        assert rows(without_autovacuum, known.format("users")) == [(False,)]


def said_and_learnt() -> bytes:
    """An export of somebody with `IMPORTED` messages in conversations of twenty."""
    records: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("conversations", "messages", "memories", "memory_sources")
    }
    for number in range(IMPORTED):
        conversation, place = divmod(number, 20)
        at = (NOON + timedelta(minutes=number)).isoformat()
        key = {"conversation_id": f"c{conversation}"}
        if place == 0:
            dates = dict.fromkeys(("created_at", "updated_at", "last_said_at"), at)
            records["conversations"].append({**key, "last_message_no": 20, "watermark": 20} | dates)
        words = {"content": f"I own item w{number * 7919 % 100003}"}
        message = {"message_id": f"m{place}", "role": "user", "said_at": at, "accepted_at": at}
        records["messages"].append({**key, **words, **message, "message_no": place + 1})
        made = dict.fromkeys(("valid_from", "said_at", "created_at", "updated_at"), at)
        kind = {"type": "fact", "importance": 0.5, "confidence": "high", "source": "conversation"}
        state = {"origin": "user", "status": "active", "version": 1}
        learnt = {"memory_id": str(uuid7())}
        records["memories"].append({**learnt, **key, **words, **kind, **state, **made})
        records["memory_sources"].append({**learnt, **key, "message_id": f"m{place}"})
    owner = {"tenant_id": ANA.tenant_id, "user_id": ANA.user_id}
    lines = [{"table": "users", "row": {**owner, "created_at": NOON.isoformat()}}]
    lines += [{"table": name, "row": owner | row} for name, each in records.items() for row in each]
    return "\n".join(map(json.dumps, lines)).encode()


async def test_row_23_the_first_questions_after_an_import_are_planned_with_statistics(
    start_services: StartServices, without_autovacuum: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No sweep comes by before them. Without statistics they read rows by the hundred thousand."""
    monkeypatch.setattr("hitherto_extraction.wiring.work.STATISTICS_SECONDS", 3_600.0)
    async with start_services() as services:
        reply = await bring(services, said_and_learnt())
    assert reply.imported_counts["memory_sources"] == IMPORTED
    with psycopg.connect(without_autovacuum) as connection:
        found = connection.execute("SELECT memory_id FROM memories").fetchall()
        keys = [(f"c{number // 20}", number % 20 + 1) for number in range(0, IMPORTED, 4)]
        query = ItemQuery(ANA, wanted=50)
        since = PassageFilters(created_after=NOON)
        for statement in (
            message_candidates.SEARCH.find(query, since),
            neighbours.facts_about(query, keys),
            neighbours.caveats(ANA, keys),
            memories.by_ids(ANA, [memory_id for (memory_id,) in found]),
            conversations.recent(ANA, first=None, limit=50),
        ):
            ((plans,),) = connection.execute(
                f"EXPLAIN (ANALYZE, FORMAT JSON) {expanded(statement.sql)}".encode(),
                dict(statement.parameters),
            ).fetchall()
            for node in nodes(plans[0]["Plan"]):
                looked_at = node["Actual Loops"] * (
                    node["Actual Rows"]
                    + node.get("Rows Removed by Filter", 0)
                    + node.get("Rows Removed by Join Filter", 0)
                )
                assert looked_at <= 20 * IMPORTED, (statement.sql, node)


def test_row_23_growth_is_seen_before_postgres_counts_it(without_autovacuum: str) -> None:
    """What a connection wrote is counted when it has been idle for ten seconds."""
    with psycopg.connect(without_autovacuum, autocommit=True) as writer:
        writer.execute("INSERT INTO users (tenant_id, user_id) VALUES ('default', 'ana')")
        writer.execute(
            "INSERT INTO conversations (tenant_id, user_id, conversation_id)"
            " SELECT 'default', 'ana', 'c' || n FROM generate_series(1, 1000) AS n"
        )
        with psycopg.connect(without_autovacuum, autocommit=True) as other:
            found = other.execute("SELECT analyse_grown()").fetchone()
            assert found == ("conversations",)
            # It is left alone until it has grown again.
            assert other.execute("SELECT analyse_grown()").fetchone() == (None,)


def test_row_23_many_users_are_told_apart_by_a_small_sample(without_autovacuum: str) -> None:
    """A young store is analysed again and again; the full sample is left to autovacuum."""
    with psycopg.connect(without_autovacuum, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO users (tenant_id, user_id)"
            " SELECT 'default', 'user-' || n FROM generate_series(1, 2000) AS n"
        )
        connection.execute(
            "INSERT INTO conversations (tenant_id, user_id, conversation_id)"
            " SELECT 'default', 'user-' || n % 2000 + 1, 'c' || n"
            " FROM generate_series(1, 40000) AS n"
        )
        while connection.execute("SELECT analyse_grown()").fetchone() != (None,):
            pass
        ((users, bounds),) = connection.execute(
            "SELECT max(n_distinct) FILTER (WHERE attname = 'user_id'),"
            " max(cardinality(histogram_bounds::text::text[]))"
            " FROM pg_stats WHERE schemaname = 'hitherto' AND tablename = 'conversations'"
        ).fetchall()
    assert 1000 < users < 4000
    assert bounds <= 11
