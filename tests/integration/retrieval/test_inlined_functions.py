"""Postgres puts the functions of the schema into the statements that use them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from hitherto_retrieval.storage import (
    chunk_candidates,
    filtered_candidates,
    memories,
    message_candidates,
    neighbours,
    newest,
    past,
    sealed_items,
    summary_candidates,
)
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.models import Scope
from tests.integration.retrieval.seed import TENANT

ANA = Scope(TENANT, "ana")
THEN = datetime(2026, 3, 1, tzinfo=UTC)
MOMENT = Moment(as_of=THEN, known_at=THEN)
FILTERS = Filters(types=["fact"], entity="Sarah", metadata={"team": "a"})
PASSAGES = PassageFilters(created_after=THEN, entity="Sarah")
SOUGHT = ItemQuery(ANA, model="model", wanted=60)
QUERY = ItemQuery(ANA, model="model", wanted=10)
FUNCTION = re.compile(r"filtered_|compared_|memories_at|in_doubt_at|learnt_from_messages")
PAGE: dict[str, Any] = {"order_by": "importance", "after": None, "limit": 10}

STATEMENTS: dict[str, Statement[Any]] = {
    "list": memories.page(ANA, FILTERS, **PAGE),
    "search": filtered_candidates.find(SOUGHT, FILTERS),
    "sealed": sealed_items.memories(ANA, FILTERS),
    "past list": past.page(ANA, MOMENT, FILTERS, **PAGE),
    "past top": past.top(ANA, MOMENT, limit=10, newest_first=False),
    "past search": filtered_candidates.find_at(SOUGHT, MOMENT, FILTERS),
    "past sealed": sealed_items.memories(ANA, FILTERS, MOMENT),
    "messages": message_candidates.SEARCH.find(QUERY, PASSAGES),
    "summaries": summary_candidates.SEARCH.find(QUERY, PASSAGES),
    "documents": chunk_candidates.SEARCH.find(QUERY, PASSAGES),
    "last documents": chunk_candidates.SEARCH.newest(QUERY, PASSAGES, limit=3),
    "last messages": message_candidates.SEARCH.newest(QUERY, PASSAGES, limit=3),
    "adjacent messages": neighbours.around(QUERY, [("c", 1)], turns=1, farthest=4),
    "caveats": neighbours.caveats(ANA, [("c", 1)]),
    "newest messages": newest.page(ANA, "message", PASSAGES, limit=3),
    "newest summaries": newest.page(ANA, "summary", PASSAGES, limit=3),
    "newest documents": newest.page(ANA, "document", PASSAGES, limit=3),
}


@pytest.mark.parametrize("named", STATEMENTS)
async def test_no_plan_calls_the_function(reader: Database, named: str) -> None:
    """A call would read all that the function lets through, whatever the statement needs of it."""
    statement = STATEMENTS[named]
    assert FUNCTION.search(statement.sql)

    async def explain(connection: Connection) -> str:
        cursor = await connection.execute(f"EXPLAIN {statement.sql}".encode(), statement.parameters)
        return "\n".join(row[0] for row in await cursor.fetchall())

    plan = await reader.run(explain, timeout=120)
    assert not re.search(rf"Function Scan on {FUNCTION.pattern}", plan)
    assert "Scan" in plan
