"""One search over memories: keyword leg beside the embedding, one statement for the candidates."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from recollect_retrieval.search.dates.find import find_window
from recollect_retrieval.search.legs import Leg, Legs, Stopwatch
from recollect_retrieval.search.names import names_in
from recollect_retrieval.search.query import QueryEmbedders, QueryVector
from recollect_retrieval.search.ranking import BALANCED, Ranked, rank
from recollect_retrieval.storage import memories, people
from recollect_retrieval.storage.memories import Filters
from recollect_retrieval.storage.people import UserState
from recollect_shared.database.pool import Connection, Database
from recollect_shared.embeddings.protocol import Vector
from recollect_shared.models import Entity, Memory, Scope
from recollect_shared.text.bm25 import score
from recollect_shared.text.terms import query_terms

CANDIDATES = 60
"""How many of the nearest and of the wordiest memories are ranked, at least."""
MAX_LEXICAL = 5_000
"""Texts with a word of the query that are handed to the candidates' statement, best first."""
_ANSWER_SECONDS = 0.05
"""What is kept of the deadline for ranking and the reply."""
_NO_QUERY = "there is no query"


@dataclass(frozen=True, slots=True)
class Question:
    """What is searched for, and in which light."""

    text: str
    limit: int
    filters: Filters
    reference_time: datetime
    vector: Vector | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory found, with its score, the parts of it, and the legs that found it."""

    memory: Memory
    score: float
    breakdown: Mapping[str, float]
    legs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a question."""

    hits: Sequence[Hit]
    entities: Sequence[Entity]
    candidates_total: int


@dataclass(frozen=True, slots=True)
class _Words:
    """What the words of a question are found to be."""

    bm25: Mapping[int, float]
    entities: Sequence[Entity]


class MemorySearch:
    """Answers questions about one user's memories."""

    def __init__(self, queries: QueryEmbedders, *, embedding_seconds: float) -> None:
        self._queries = queries
        self._embedding_seconds = embedding_seconds

    async def run(
        self,
        database: Database,
        scope: Scope,
        question: Question,
        user: UserState,
        legs: Legs,
        *,
        deadline: float,
    ) -> Found:
        """Search; `deadline` is the loop's time by which the answer must be there."""
        loop = asyncio.get_running_loop()
        if not question.text.strip() and question.vector is None:
            return await database.run(
                lambda connection: self._list(connection, scope, question, legs),
                timeout=deadline - loop.time(),
                repeatable=True,
            )
        remaining = deadline - loop.time()
        # The words are looked up while the question is embedded.
        embedding = asyncio.create_task(self._embed(question, user, legs, remaining))
        try:
            words = await database.run(
                lambda connection: self._words(connection, scope, question, user, legs),
                timeout=remaining,
                repeatable=True,
            )
            query = await embedding
        except BaseException:
            embedding.cancel()
            raise
        return await database.run(
            lambda connection: self._answer(connection, scope, question, user, words, query, legs),
            timeout=deadline - loop.time(),
            repeatable=True,
        )

    async def _list(
        self, connection: Connection, scope: Scope, question: Question, legs: Legs
    ) -> Found:
        """What counts most when nothing is asked: by importance, then recency of use."""
        for name in ("semantic", "keyword"):
            legs.add(Leg(name, "skipped", reason=_NO_QUERY))
        listed, _, total = await memories.list_page(
            connection,
            scope,
            question.filters,
            order_by="usefulness",
            after=None,
            limit=question.limit,
        )
        unscored = dict.fromkeys(BALANCED, 0.0)
        asked_too_much = question.min_score is not None and question.min_score > 0
        hits = [] if asked_too_much else [Hit(memory, 0.0, unscored, ()) for memory in listed]
        return Found(hits, [], total)

    async def _embed(
        self, question: Question, user: UserState, legs: Legs, remaining: float
    ) -> QueryVector:
        watch = Stopwatch.start()
        if user.active_model is None:
            found = QueryVector(None, "skipped", "no memory has a vector yet")
        elif question.vector is not None:
            found = QueryVector(question.vector, "ran")
        elif not question.text.strip():
            found = QueryVector(None, "skipped", _NO_QUERY)
        else:
            share = max(0.0, min(self._embedding_seconds, remaining / 2 - _ANSWER_SECONDS))
            found = await self._queries.embed(user.active_model, question.text, timeout=share)
        if found.vector is None:
            legs.add(Leg("semantic", found.state, watch.seconds, reason=found.reason))
        return found

    async def _words(
        self,
        connection: Connection,
        scope: Scope,
        question: Question,
        user: UserState,
        legs: Legs,
    ) -> _Words:
        """The keyword leg, and which entities the question names."""
        watch = Stopwatch.start()
        terms = query_terms(question.text)
        if not terms:
            reason = "the query has no word to look up" if question.text.strip() else _NO_QUERY
            legs.add(Leg("keyword", "skipped", watch.seconds, reason=reason))
            return _Words({}, [])
        postings = await people.read_postings(connection, scope, terms)
        scores = score(postings, user.statistics.documents, user.statistics.terms)
        entities = await people.entities_named(connection, scope, names_in(question.text))
        legs.add(Leg("keyword", "ran", watch.seconds, len(scores)))
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:MAX_LEXICAL]
        return _Words({number: scores[number] for number in best}, entities)

    async def _answer(
        self,
        connection: Connection,
        scope: Scope,
        question: Question,
        user: UserState,
        words: _Words,
        query: QueryVector,
        legs: Legs,
    ) -> Found:
        """Fetch candidates with their features, rank them, and read the best ones whole."""
        watch = Stopwatch.start()
        candidates, total = await memories.find_candidates(
            connection,
            scope,
            question.filters,
            vector=query.vector,
            model=user.active_model[0] if user.active_model is not None else "",
            bm25=words.bm25,
            wanted=max(CANDIDATES, question.limit),
        )
        if query.vector is not None:
            with_vector = sum(candidate.cosine is not None for candidate in candidates)
            legs.add(Leg("semantic", "ran", watch.seconds, with_vector))
        window = find_window(question.text, question.reference_time, user.time_zone or "UTC")
        if window is not None:
            legs.add(Leg("temporal", "ran"))
        ranked = rank(candidates, window, question.weights)[: question.limit]
        if question.min_score is not None:
            ranked = [item for item in ranked if item.score >= question.min_score]
        whole = {
            memory.memory_id: memory
            for memory in await memories.read_by_ids(
                connection, scope, [item.candidate.memory_id for item in ranked]
            )
        }
        return Found(
            hits=[
                Hit(whole[item.candidate.memory_id], item.score, item.breakdown, _legs_of(item))
                for item in ranked
                if item.candidate.memory_id in whole
            ],
            entities=words.entities,
            candidates_total=total,
        )


def _legs_of(item: Ranked) -> list[str]:
    found = []
    if item.candidate.cosine is not None and item.candidate.cosine > 0:
        found.append("semantic")
    if item.candidate.bm25 > 0:
        found.append("keyword")
    if item.timely:
        found.append("temporal")
    return found
