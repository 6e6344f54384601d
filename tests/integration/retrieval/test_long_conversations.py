"""What surrounds messages is found without reading all of a long conversation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from hitherto_retrieval.storage import neighbours
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.models import Scope
from tests.integration.retrieval.seed import TENANT, Fact, remember
from tests.integration.retrieval.seed_passages import MODEL, Turn, converse

ANA = Scope(TENANT, "ana")
LONG = 1200
SHORT = {f"c{number}": [Turn("short")] * 6 for number in range(200)}
QUERY = ItemQuery(ANA, model=MODEL[0])
KEYS = [("long", number) for number in range(10, LONG, 10)]

STATEMENTS: dict[str, Statement[Any]] = {
    "adjacent messages": neighbours.around(QUERY, KEYS, turns=1, farthest=4),
    "facts": neighbours.facts_about(QUERY, KEYS),
    "caveats": neighbours.caveats(ANA, KEYS),
}


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)


@pytest.mark.parametrize("named", STATEMENTS)
async def test_messages_around_are_read_and_not_the_conversation(
    reader: Database, superuser_conninfo: str, named: str
) -> None:
    """Counted are the rows that each step looked at, with those that it dropped."""
    said = [Turn("hello", role=("user", "assistant")[number % 2]) for number in range(LONG)]
    facts = [Fact("x", conversation_id="long") for _ in range(LONG // 2)]
    await remember(superuser_conninfo, "ana", facts)
    await remember(superuser_conninfo, "minh", [Fact("x", conversation_id=name) for name in SHORT])
    await converse(superuser_conninfo, "ana", {"long": said})
    await converse(superuser_conninfo, "minh", SHORT)
    async with await psycopg.AsyncConnection.connect(
        superuser_conninfo, autocommit=True
    ) as connection:
        await connection.execute(
            "UPDATE memory_sources AS s SET message_id = 'm' || 2 * m.lexical_no FROM memories AS m"
            " WHERE m.memory_id = s.memory_id AND s.conversation_id = 'long'"
        )
        await connection.execute("ANALYZE")
    statement = STATEMENTS[named]

    async def explain(connection: Connection) -> dict[str, Any]:
        sql = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}".encode()
        plans = await connection.fetch_value(sql, statement.parameters)
        return dict(plans[0]["Plan"])

    plan = await reader.run(explain, timeout=120)
    looked_at = max(
        node["Actual Loops"]
        * (
            node["Actual Rows"]
            + node.get("Rows Removed by Filter", 0)
            + node.get("Rows Removed by Join Filter", 0)
        )
        for node in _nodes(plan)
    )
    assert looked_at <= 30 * len(KEYS)
