"""The newest of each source (D5): a "last email" is found however little its words say."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from hitherto_retrieval.storage import chunk_candidates, chunks, message_candidates
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.database.fragments import expanded
from hitherto_shared.database.pool import Connection
from hitherto_shared.text.bm25 import Scores
from tests.integration.retrieval import seed_passages
from tests.integration.retrieval.questions import ANA, Reader, answer, unit_vectors
from tests.integration.retrieval.seed_passages import MODEL, Paper, Turn, converse, hand_over

NOW = datetime.now(UTC)


def _papers() -> list[Paper]:
    """Of each source ten, one a day, named after source and age in days; the youngest is 0."""
    return [
        Paper(
            source, ["first", "second"], title=f"{source} {age}", made_at=NOW - timedelta(days=age)
        )
        for source in ("gmail", "outlook", "jira")
        for age in (4, 2, 0, 1, 3, 5, 6, 7, 8, 9)
    ]


BALANCED: list[tuple[PassageFilters, list[str]]] = [
    (PassageFilters(source_types=["gmail"]), ["gmail 0", "gmail 1"]),
    (
        PassageFilters(source_types=["gmail", "outlook"]),
        ["gmail 0", "outlook 0", "gmail 1", "outlook 1"],
    ),
    (PassageFilters(), ["gmail 0", "jira 0", "outlook 0", "gmail 1", "jira 1", "outlook 1"]),
    (
        PassageFilters(source_types=["jira"], created_before=NOW - timedelta(days=3)),
        ["jira 4", "jira 5"],
    ),
    (PassageFilters(source_types=["calendar"]), []),
    (PassageFilters(conversation_id="c"), []),
]


async def test_documents_are_balanced_over_sources(reader: Reader) -> None:
    stored, _ = await hand_over(reader.superuser, "ana", _papers())
    later = NOW + timedelta(days=1)
    theirs = [Paper(source, ["x"], "theirs", made_at=later) for source in ("gmail", "jira")]
    await hand_over(reader.superuser, "minh", theirs)
    await hand_over(reader.superuser, "ana", theirs, tenant="another")
    for filters, expected in BALANCED * 12:
        found = await answer(
            reader, chunk_candidates.SEARCH.newest(ItemQuery(ANA), filters, limit=2)
        )
        assert all(c.most_recent and c.kind == "document" for c in found)
        assert [c.happened_at for c in found] == sorted(
            (c.happened_at for c in found), reverse=True
        )
        whole = await answer(
            reader,
            chunks.by_ids(ANA, [part[0] for part in stored if part[0] in {c.key for c in found}]),
        )
        assert {chunk.title for chunk in whole} == set(expected)
        assert {chunk.position for chunk in whole} <= {0}
        assert len(found) == len(expected)


async def test_a_document_without_chunks_takes_no_place(reader: Reader) -> None:
    question, vector = unit_vectors(2, 41)
    papers = [
        Paper("gmail", [], "not read yet", made_at=NOW),
        Paper("gmail", ["x"], made_at=NOW - timedelta(days=1), mentions=["Lan"], vectors=[vector]),
    ]
    stored, entities = await hand_over(reader.superuser, "ana", papers)
    (found,) = await answer(
        reader,
        chunk_candidates.SEARCH.newest(
            ItemQuery(
                ANA,
                Scores.of({1: 3.0}),
                question,
                MODEL[0],
                entity_ids=list(entities.values()),
                text_query="x",
            ),
            PassageFilters(),
            limit=1,
        ),
    )
    assert (found.key, found.bm25, found.entities) == (stored[1][0], 3.0, 1)
    assert found.cosine == pytest.approx(float(question @ vector), abs=1e-3)
    assert found.text_rank > 0


async def test_the_users_last_messages(reader: Reader) -> None:
    said = {
        name: [
            Turn(f"{name} {age}", role, said_at=NOW - timedelta(days=age))
            for age, role in ((5, "user"), (3 + shift, "user"), (1, "assistant"), (0, "tool"))
        ]
        for name, shift in (("a", 0), ("b", 1))
    }
    await converse(reader.superuser, "ana", said)
    await converse(reader.superuser, "minh", {"a": [Turn("theirs", said_at=NOW)]})
    await converse(reader.superuser, "ana", {"a": [Turn("x", said_at=NOW)]}, tenant="another")

    async def last(filters: PassageFilters, limit: int) -> list[str]:
        found = await answer(
            reader,
            message_candidates.SEARCH.newest(ItemQuery(ANA, text_query=""), filters, limit=limit),
        )
        assert all(c.most_recent and c.role == "user" for c in found)
        return [c.words for c in found]

    for _ in range(12):
        assert await last(PassageFilters(), 3) == ["a 3", "b 4", "b 5"]
        assert await last(PassageFilters(conversation_id="b"), 3) == ["b 4", "b 5"]
        before = PassageFilters(created_before=NOW - timedelta(days=4))
        assert await last(before, 9) == ["b 5", "a 5"]


def _rankings(node: Mapping[str, Any]) -> list[int]:
    """How often each part of a plan ran that ranks rows."""
    own = [int(node["Actual Loops"])] if node["Node Type"] == "WindowAgg" else []
    return own + [runs for part in node.get("Plans", ()) for runs in _rankings(part)]


async def test_row_23_documents_are_ranked_once_on_a_database_without_statistics(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed_passages, "GROWN", sys.maxsize)
    await hand_over(reader.superuser, "ana", _papers())
    statement = chunk_candidates.SEARCH.newest(ItemQuery(ANA), PassageFilters(), limit=2)

    async def planned(connection: Connection) -> list[Any]:
        # The connection's own `execute` knows no parameters of psycopg's kinds.
        cursor = await psycopg.AsyncCursor(connection).execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {expanded(statement.sql)}", dict(statement.parameters)
        )
        (row,) = await cursor.fetchall()
        return list(row[0])

    (plan,) = await reader.run(planned, timeout=120)
    assert _rankings(plan["Plan"]) == [1]
