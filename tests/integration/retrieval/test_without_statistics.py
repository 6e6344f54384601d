"""A fresh installation: searches of what was never analysed keep a bound (faults.md row 23).

Statistics come some seconds after the rows. Until then Postgres takes every user for one who has a
single message, so that a plan may compute a part of a statement anew for each row of another.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from hitherto_retrieval.storage import (
    chunk_candidates,
    message_candidates,
    neighbours,
    summary_candidates,
)
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.database.fragments import expanded
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.text.bm25 import Scores
from tests.integration.retrieval import seed_passages
from tests.integration.retrieval.questions import ANA, unit_vectors
from tests.integration.retrieval.seed import Fact, remember
from tests.integration.retrieval.seed_passages import (
    MODEL,
    Outline,
    Paper,
    Turn,
    converse,
    hand_over,
    sum_up,
)

TEXTS = 250
EACH = 10
"""Messages of a conversation, chunks of a document."""
WANTED = 50
QUERY = ItemQuery(
    ANA,
    Scores.of(dict.fromkeys(range(1, TEXTS, 5), 1.0)),
    unit_vectors(1, 1)[0],
    MODEL[0],
    WANTED,
)
KEYS = [(f"c{number // EACH}", number % EACH + 1) for number in range(0, TEXTS, 4)]
NONE = PassageFilters()
ALSO_ALL = PassageFilters(created_after=datetime(2000, 1, 1, tzinfo=UTC))

STATEMENTS: dict[str, Statement[Any]] = {
    "messages": message_candidates.SEARCH.find(QUERY, NONE),
    "filtered messages": message_candidates.SEARCH.find(QUERY, ALSO_ALL),
    "summaries": summary_candidates.SEARCH.find(QUERY, NONE),
    "filtered summaries": summary_candidates.SEARCH.find(QUERY, ALSO_ALL),
    "chunks": chunk_candidates.SEARCH.find(QUERY, NONE),
    "filtered chunks": chunk_candidates.SEARCH.find(
        QUERY, PassageFilters(source_types=("gmail", "jira"))
    ),
    "newest messages": message_candidates.SEARCH.newest(QUERY, NONE, limit=WANTED),
    "newest summaries": summary_candidates.SEARCH.newest(QUERY, NONE, limit=WANTED),
    "newest documents": chunk_candidates.SEARCH.newest(QUERY, NONE, limit=20),
    "adjacent messages": neighbours.around(QUERY, KEYS, turns=1, farthest=4),
    "facts": neighbours.facts_about(QUERY, KEYS),
    "caveats": neighbours.caveats(ANA, KEYS),
}


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)


@pytest.fixture
async def fresh(superuser_conninfo: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user with some hundred texts of every kind, in tables that nobody has analysed."""
    monkeypatch.setattr(seed_passages, "GROWN", sys.maxsize)
    async with await psycopg.AsyncConnection.connect(
        superuser_conninfo, autocommit=True
    ) as connection:
        cursor = await connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname = 'hitherto'"
        )
        for (table,) in await cursor.fetchall():
            await connection.execute(
                f"ALTER TABLE {table} SET (autovacuum_enabled = false)".encode()
            )
    vectors = unit_vectors(TEXTS, 2)
    names = [f"c{number}" for number in range(TEXTS // EACH)]
    await remember(
        superuser_conninfo,
        "ana",
        [
            Fact(f"number {n}", conversation_id=names[n % len(names)], vector=vector)
            for n, vector in enumerate(vectors)
        ],
    )
    await converse(
        superuser_conninfo,
        "ana",
        {
            name: [
                Turn("hello", role=("user", "assistant")[n % 2], vector=vectors[place * EACH + n])
                for n in range(EACH)
            ]
            for place, name in enumerate(names)
        },
    )
    await sum_up(
        superuser_conninfo,
        "ana",
        [Outline(f"s{n}", "They spoke", vector=vector) for n, vector in enumerate(vectors)],
    )
    await hand_over(
        superuser_conninfo,
        "ana",
        [
            Paper(
                ("gmail", "jira")[place % 2],
                [f"chunk {n}" for n in range(EACH)],
                vectors=vectors[place * EACH : (place + 1) * EACH],
            )
            for place in range(TEXTS // EACH)
        ],
    )
    return superuser_conninfo


async def test_row_23_no_step_looks_at_more_than_pairs_before_the_first_analysis(
    reader: Database, fresh: str
) -> None:
    """The vectors of chunks are looked at once by a leg, and once by their keys."""
    for named, statement in STATEMENTS.items():

        async def explain(connection: Connection, statement: Statement[Any] = statement) -> Any:
            cursor = await psycopg.AsyncCursor(connection).execute(
                f"EXPLAIN (ANALYZE, FORMAT JSON) {expanded(statement.sql)}".encode(),
                dict(statement.parameters),
            )
            ((plans,),) = await cursor.fetchall()
            return plans[0]

        plan = await reader.run(explain, timeout=120)
        for node in _nodes(plan["Plan"]):
            looked_at = node["Actual Loops"] * (
                node["Actual Rows"]
                + node.get("Rows Removed by Filter", 0)
                + node.get("Rows Removed by Join Filter", 0)
            )
            once = named == "chunks" and "_embeddings" in node.get("Relation Name", "")
            assert looked_at <= (2 * TEXTS if once else TEXTS**2), (named, node)
