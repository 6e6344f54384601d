"""A search passes the best document chunks by words to Postgres, not all that have one (D8)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import psycopg
import pytest

from hitherto_retrieval.search.corpora.passages import DocumentCorpus
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.storage import chunk_candidates
from hitherto_retrieval.storage.candidate import Candidate
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_shared.database.pool import Database
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import Scores
from tests.integration.retrieval.questions import answer, unit_vectors
from tests.integration.retrieval.seed import TENANT
from tests.integration.retrieval.seed_passages import MODEL, Paper, hand_over

ANA = Scope(TENANT, "ana")
EVERYTHING = PassageFilters()
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
    reader: Database, superuser_conninfo: str, expired: int, statements: int, equal: bool
) -> None:
    """However many of the best have expired, and where many score the same."""
    vectors = unit_vectors(CHUNKS + 1, 31)
    stored, _ = await hand_over(
        superuser_conninfo,
        "ana",
        [Paper("gmail", ["swan"], vectors=[vector]) for vector in vectors[1:]],
    )
    async with await psycopg.AsyncConnection.connect(superuser_conninfo) as connection:
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
