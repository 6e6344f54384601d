"""Chunks of documents that a search weighs: by vectors, words and names (D3, D7, D8, D13)."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from hitherto_retrieval.search.corpora.passages import DocumentCorpus
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.storage import chunk_candidates, chunks
from hitherto_retrieval.storage.candidate import Candidate, text_rank_of
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.database.pool import Database
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.identifiers import uuid7
from hitherto_shared.text.bm25 import Scores
from tests.integration.retrieval.questions import (
    ANA,
    Reader,
    answer,
    keys,
    nearest,
    unit_vectors,
    weighed,
    words,
)
from tests.integration.retrieval.seed_passages import MODEL, Paper, hand_over

NOW = datetime.now(UTC)


def find(reader: Database, **asked: Any) -> Awaitable[list[Candidate]]:
    return weighed(reader, chunk_candidates, **asked)


EVERYTHING = PassageFilters()
FROM_EVER = PassageFilters(created_after=NOW - timedelta(days=9999))


async def test_repeats_on_one_connection_keep_full_recall(reader: Reader) -> None:
    crowd = [Paper("gmail", ["noise"] * 50, vectors=unit_vectors(50, seed)) for seed in range(3)]
    await hand_over(reader.superuser, "crowd", crowd)
    vectors = unit_vectors(300, 21)
    papers = [
        Paper(
            "jira" if n % 10 == 0 else "gdrive",
            ["text"] * 10,
            vectors=vectors[10 * n : 10 * n + 10],
        )
        for n in range(30)
    ]
    stored, _ = await hand_over(reader.superuser, "ana", papers)
    ids = [chunk_id for part in stored for chunk_id in part]
    tasks = PassageFilters(source_types=["jira", "asana"])
    for question in unit_vectors(20, 22):
        found = await find(reader, vector=question, wanted=60)
        assert keys(found) == nearest(ids, vectors, question, 60)
        found = await find(reader, filters=tasks, vector=question)
        assert keys(found) == nearest(ids, vectors, question, 10, lambda n: n // 10 % 10 == 0)


@pytest.mark.parametrize("filters", [EVERYTHING, FROM_EVER], ids=["all", "filtered"])
async def test_features(reader: Reader, filters: PassageFilters) -> None:
    question, other = unit_vectors(2, 23)
    made_at = NOW - timedelta(days=30)
    paper = Paper(
        "gmail",
        ["the first part", "the swan part"],
        title="Quarterly report",
        made_at=made_at,
        mentions=["Lan", "Kim"],
        vectors=[None, other],
    )
    stored, entities = await hand_over(
        reader.superuser, "ana", [paper, Paper("jira", ["else"], mentions=["Minh"])]
    )
    scores = await words(reader, "ana", "documents", "swan")
    (found,) = await find(
        reader,
        filters=filters,
        bm25=scores,
        vector=question,
        wanted=5,
        text_query='swan & (report | "part',
    )
    assert (found.kind, found.key, found.source_type) == ("document", stored[0][1], "gmail")
    (whole,) = await answer(reader, chunks.by_ids(ANA, stored[0][1:]))
    assert (found.document_id, found.conversation_id) == (whole.document_id, None)
    assert (found.happened_at, found.created_at > made_at) == (made_at, True)
    assert (found.bm25, found.entities) == (scores[2], 0)
    assert found.cosine == pytest.approx(float(question @ other), abs=1e-3)
    assert found.text_rank > 0
    # Whoever the question names brings in the head of their documents, by number of names.
    named = [entities["Lan"], entities["Kim"], entities["Minh"], uuid7()]
    by_name = await find(reader, filters=filters, named=named)
    assert {c.key: c.entities for c in by_name} == {stored[0][0]: 2, stored[1][0]: 1}
    assert {c.text_rank for c in by_name} == {0}
    assert {c.cosine for c in by_name} == {None}
    (first,) = await find(reader, filters=filters, named=named, wanted=1)
    assert first.key == stored[0][0]
    assert await find(reader, filters=filters) == []


async def test_ts_rank_takes_anybodys_words(reader: Reader) -> None:
    """Design §3: user text never reaches the query syntax of Postgres."""
    await hand_over(reader.superuser, "ana", [Paper("gdrive", ["Hà Nội"]), Paper("gdrive", ["x"])])
    for asked in ("", "' & | ! :*", "\\", "-", "Hà Nội or 東京", "a" * 5000):
        found = await find(reader, bm25={1: 1.0, 2: 1.0}, text_query=asked)
        ranks = sorted(c.text_rank for c in found)
        assert ranks[0] == 0, asked
        assert (ranks[1] > 0) == asked.startswith("Hà"), asked


async def test_the_heading_counts_in_ts_rank(reader: Reader) -> None:
    await hand_over(reader.superuser, "ana", [Paper("gdrive", ["x"], title="Swan report")])
    (found,) = await find(reader, bm25={1: 1.0}, text_query="swan")
    assert found.text_rank > 0


FILTERED = {
    "source": (PassageFilters(source_types=["gmail", "outlook"]), {"mail", "old mail"}),
    "content": (PassageFilters(content_types=["task"]), {"task"}),
    "both": (PassageFilters(source_types=["gmail"], content_types=["task"]), set()),
    "after": (PassageFilters(created_after=NOW - timedelta(days=5)), {"mail", "task"}),
    "before": (PassageFilters(created_before=NOW - timedelta(days=5)), {"old mail"}),
    "metadata": (PassageFilters(metadata={"labels": ["a", "b"]}), {"mail"}),
    "entity": (PassageFilters(entity="LÂN"), {"mail"}),
    "alias": (PassageFilters(entity="Lan@Example.org"), {"mail"}),
    "unknown entity": (PassageFilters(entity="nobody"), set()),
    "a document is of no conversation": (PassageFilters(conversation_id="c"), set()),
}


async def test_filters_return_all_that_pass(reader: Reader) -> None:
    question, *vectors = unit_vectors(5, 24)
    papers = [
        Paper(
            "gmail",
            ["swan"],
            "mail",
            "email",
            NOW - timedelta(days=1),
            {"labels": ["a", "b"]},
            ["Lân"],
            vectors[:1],
        ),
        Paper(
            "outlook", ["swan"], "old mail", "email", NOW - timedelta(days=99), {"labels": ["a"]}
        ),
        Paper("jira", ["swan"], "task", "task", NOW, {}, ["Kim"], vectors[1:2]),
    ]
    stored, entities = await hand_over(reader.superuser, "ana", papers)
    titles = {part[0]: paper.title for part, paper in zip(stored, papers, strict=True)}
    theirs = [Paper("gmail", ["swan"], vectors=vectors[2:3], mentions=["Lân"])]
    await hand_over(reader.superuser, "minh", theirs)
    await hand_over(reader.superuser, "ana", theirs, tenant="another")
    scores = await words(reader, "ana", "documents", "swan")
    for name, (filters, expected) in FILTERED.items():
        for _ in range(7):
            found = await find(reader, filters=filters, bm25=scores, vector=question)
            assert {titles[c.key] for c in found if isinstance(c.key, UUID)} == expected, name
            near = await find(reader, filters=filters, vector=question)
            nearer = {titles[c.key] for c in near if isinstance(c.key, UUID)}
            assert nearer == expected - {"old mail"}, name
            named = await find(reader, filters=filters, named=list(entities.values()))
            assert keys(named) == keys(near), name


# A search passes the best chunks by words to Postgres, not all that have one.

CHUNKS = 300
WANTED = 20


def shown(found: list[Candidate]) -> list[tuple[object, ...]]:
    return sorted((str(each.key), each.bm25, each.cosine, each.entities) for each in found)


async def searched(
    reader: Database, scores: Scores, vector: Vector | None
) -> tuple[list[Candidate], list[int]]:
    """The candidates of the corpus, and how many numbers each of its statements was given."""
    corpus = DocumentCorpus(EVERYTHING, UserReads(ANA))
    query = ItemQuery(ANA, scores, vector, MODEL[0], WANTED)
    given = []
    for statements in (partial(corpus.first, query), corpus.second):
        for statement in statements():
            given.append(len(statement.parameters["lexical_nos"]))
            await answer(reader, statement)
    return corpus.candidates(), given


@pytest.mark.parametrize(
    ("expired", "statements"), [(0, 1), (WANTED // 2, 2), (WANTED * 3, 2), (CHUNKS, 2)]
)
@pytest.mark.parametrize("equal", [False, True], ids=["distinct", "equal"])
async def test_the_best_are_those_of_all(
    reader: Reader, expired: int, statements: int, equal: bool
) -> None:
    """However many of the best have expired, and where many score the same."""
    vectors = unit_vectors(CHUNKS + 1, 31)
    stored, _ = await hand_over(
        reader.superuser,
        "ana",
        [Paper("gmail", ["swan"], vectors=[vector]) for vector in vectors[1:]],
    )
    async with await psycopg.AsyncConnection.connect(reader.superuser) as connection:
        await connection.execute(
            "UPDATE documents SET expires_at = %s WHERE user_id = 'ana' AND document_id IN"
            " (SELECT document_id FROM document_chunks WHERE chunk_id = ANY(%s))",
            (datetime(2026, 1, 1, tzinfo=UTC), [part[0] for part in stored[:expired]]),
        )
    scores = Scores.of(
        {n: 9.0 if equal and n <= WANTED * 2 else 9.0 - n / 100 for n in range(1, CHUNKS + 1)}
    )
    for vector in (None, vectors[0]):
        query = ItemQuery(ANA, scores, vector, MODEL[0], WANTED)
        whole = chunk_candidates.SEARCH.find(query, EVERYTHING, among_all=True)
        found, given = await searched(reader, scores, vector)
        assert shown(found) == shown(await answer(reader, whole))
        assert given[0] == (WANTED * 2 if equal else WANTED)
        if not equal:
            assert len(given) == statements


# `fulltext`: what Postgres says of a text that matches, and of one that does not.

_RANK = "SELECT ts_rank(to_tsvector('simple', %s), websearch_to_tsquery('simple', %s))"


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("the table format", True),
        ("format of a long table", True),
        ("format " + "of a very long table " * 40, True),
        ("a table", False),
        ("nothing of it", False),
        ("", False),
    ],
)
def test_a_text_that_lacks_a_word_was_not_found(
    superuser_conninfo: str, text: str, matches: bool
) -> None:
    with psycopg.connect(superuser_conninfo) as connection:
        row = connection.execute(_RANK, (text, "table format")).fetchone()
    assert row is not None
    assert (text_rank_of(row[0]) > 0) == matches
