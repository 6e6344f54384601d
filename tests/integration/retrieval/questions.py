"""Asking the database as a search does, and what the right answer is by brute force."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

import numpy as np

from hitherto_retrieval.storage import passages
from hitherto_retrieval.storage.candidate import Candidate, Key
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.passage_search import PassageSearch
from hitherto_retrieval.storage.statement import Statement, ask
from hitherto_shared.database.pool import Database
from hitherto_shared.embeddings.protocol import Vector
from hitherto_shared.models import Scope
from hitherto_shared.text.bm25 import Scores, score
from hitherto_shared.text.terms import query_terms
from tests.integration.retrieval.seed import TENANT
from tests.integration.retrieval.seed_passages import MODEL

Answer = TypeVar("Answer")
_ANY = TypeVar("_ANY")
ANA = Scope(TENANT, "ana")


class Reader(Database):
    """A pool that reads as the service does; `superuser` is the administrator's way behind it."""

    superuser: str


class Corpus(Protocol):
    """A module of candidates."""

    SEARCH: PassageSearch


async def answer(reader: Database, statement: Statement[Answer]) -> Answer:
    await reader.run(lambda connection: ask(connection, statement), timeout=120)
    return statement.answer


async def words(
    reader: Database, user: str, corpus: passages.Corpus, text: str, *, tenant: str = TENANT
) -> Scores:
    """The BM25 scores of a corpus for a question."""
    scope = Scope(tenant, user)
    found = await answer(reader, passages.postings(scope, [corpus], query_terms(text)))
    counted = (await answer(reader, passages.statistics(scope)))[corpus]
    return score(found[corpus], counted.documents, counted.terms)


async def weighed(
    reader: Database,
    corpus: Corpus,
    scope: Scope = ANA,
    filters: PassageFilters | None = None,
    *,
    vector: Vector | None = None,
    bm25: Mapping[int, float] | None = None,
    wanted: int = 10,
    named: Sequence[UUID] = (),
    **more: Any,
) -> list[Candidate]:
    """What a search weighs of messages, summaries or chunks."""
    query = ItemQuery(scope, Scores.of(bm25 or {}), vector, MODEL[0], wanted, named, **more)
    return await answer(reader, corpus.SEARCH.find(query, filters or PassageFilters()))


def unit_vectors(count: int, seed: int) -> list[Vector]:
    """Vectors as the column keeps them, so that brute force compares what is stored."""
    numbers = np.random.default_rng(seed).standard_normal((count, 64))
    unit = numbers / np.linalg.norm(numbers, axis=1, keepdims=True)
    return list(unit.astype(np.float16).astype(np.float32))


def nearest(
    items: Sequence[_ANY],
    vectors: Sequence[Vector],
    question: Vector,
    count: int,
    passes: Callable[[int], bool] = lambda _: True,
) -> set[_ANY]:
    """By brute force, the `count` items nearest to a question among those that pass by place."""
    order = np.argsort(-(np.stack(vectors) @ question))
    return {items[n] for n in [int(n) for n in order if passes(int(n))][:count]}


def keys(candidates: Sequence[Candidate]) -> set[Key]:
    """What was found; nothing twice."""
    found = {candidate.key for candidate in candidates}
    assert len(found) == len(candidates)
    return found
