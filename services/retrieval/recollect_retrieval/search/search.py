"""One search, from the words of a question to the best items, whole.

Two trips to the database: the words, names and switches first, while the question is embedded; then
the candidates of all legs and, on the same connection, the best ones whole.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from recollect_retrieval.search.dates.find import find_window
from recollect_retrieval.search.legs import Leg, Legs, Stopwatch
from recollect_retrieval.search.names import names_in
from recollect_retrieval.search.query import QueryEmbedders, QueryVector
from recollect_retrieval.search.question import Found, Hit, Question
from recollect_retrieval.search.ranking.light import Light, Ranked
from recollect_retrieval.storage import memories, memory_candidates, people
from recollect_retrieval.storage.candidate import Candidate
from recollect_retrieval.storage.memory_candidates import Sought
from recollect_retrieval.storage.people import UserState
from recollect_retrieval.storage.statement import Statement, ask
from recollect_shared.database.pool import Connection, Reads
from recollect_shared.models import Scope
from recollect_shared.text.bm25 import score
from recollect_shared.text.terms import query_terms

CANDIDATES = 60
"""How many items each leg brings in, at least."""
_ANSWER_SECONDS = 0.05
"""What is kept of the deadline for ranking and the reply."""
_READERS_KEPT = 10_000
_NO_QUERY = "there is no query"
_NO_WORD = "the query has no word to look up"
_NO_NAME = "the query names nothing that is known"


class Search:
    """Answers questions about one user's memory.

    Args:
        queries: Embeds the questions.
        embedding_seconds: How long a question's vector is waited for, at most.
    """

    def __init__(self, queries: QueryEmbedders, *, embedding_seconds: float) -> None:
        self.queries = queries
        self.embedding_seconds = embedding_seconds
        self._readers: OrderedDict[Scope, None] = OrderedDict()

    def begin(self, scope: Scope, question: Question, *, deadline: float) -> Searching:
        """A search by the loop's time `deadline`; a context manager that ends what it began."""
        return Searching(self, scope, question, deadline)

    def may_read(self, scope: Scope) -> bool:
        """Whether this user had a memory to read the last time somebody asked."""
        return scope in self._readers

    def remember_reader(self, scope: Scope, *, reads: bool) -> None:
        """Keep in mind whether there was a memory to read, of the users asked about last."""
        self._readers.pop(scope, None)
        if reads:
            self._readers[scope] = None
            if len(self._readers) > _READERS_KEPT:
                self._readers.popitem(last=False)


class Searching:
    """One question on its way.

    `statements` go with the first trip to the database, whoever makes it; then `finish` answers.
    The question is embedded meanwhile, unless nothing is known of the user yet: a text is not sent
    to a model for somebody without memory.
    """

    def __init__(self, search: Search, scope: Scope, question: Question, deadline: float) -> None:
        self._search = search
        self._scope = scope
        self._question = question
        self._deadline = deadline
        self._terms = query_terms(question.text)
        self._names = names_in(question.text) if question.text else []
        self._postings = people.postings(scope, self._terms)
        self._named = people.entities_named(scope, self._names)
        self._embedding: asyncio.Task[QueryVector] | None = None
        self._embedded_as: tuple[str, int] | None = None

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """What to ask before `finish`."""
        wanted: list[Statement[Any]] = []
        if self._terms:
            wanted.append(self._postings)
        if self._names:
            wanted.append(self._named)
        return wanted

    @property
    def names(self) -> Sequence[str]:
        """Strings of the question that something may be called."""
        return self._names

    def __enter__(self) -> Self:
        if self._search.may_read(self._scope):
            self._embed(self._search.queries.likely)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._embedding is not None:
            self._embedding.cancel()

    async def finish(self, database: Reads, user: UserState, legs: Legs) -> Found:
        """The answer; `statements` have been asked."""
        loop = asyncio.get_running_loop()
        question = self._question
        self._search.remember_reader(self._scope, reads=True)
        if not question.text.strip() and question.vector is None:
            return await database.run(
                lambda connection: self._list(connection, legs),
                timeout=self._deadline - loop.time(),
                repeatable=True,
            )
        watch = Stopwatch.start()
        if user.active_model is not None and question.vector is None:
            self._embed(user.active_model)
        bm25 = self._words(user, legs)
        window = find_window(question.text, question.reference_time, user.time_zone or "UTC")
        query = await self._vector(user)
        if query.vector is None:
            legs.add(Leg("semantic", query.state, watch.seconds, reason=query.reason))
        sought = Sought(
            vector=query.vector,
            model=user.active_model[0] if user.active_model is not None else "",
            bm25=bm25,
            entity_ids=[entity.entity_id for entity in self._entities],
            since=window.start if window else None,
            until=window.end if window else None,
            wanted=max(CANDIDATES, question.limit),
        )
        light = Light(
            now=question.reference_time,
            words=(),
            names=frozenset(self._names),
            window=window,
        )
        return await database.run(
            lambda connection: self._answer(connection, user, sought, light, legs),
            timeout=self._deadline - loop.time(),
            repeatable=True,
        )

    @property
    def _entities(self) -> Sequence[Any]:
        return self._named.answer if self._names else ()

    def _embed(self, model: tuple[str, int]) -> None:
        """Begin to embed the question, unless that is under way."""
        question = self._question
        if self._embedded_as == model or question.vector is not None or not question.text.strip():
            return
        if self._embedding is not None:
            self._embedding.cancel()
        self._embedded_as = model
        remaining = self._deadline - asyncio.get_running_loop().time()
        share = max(0.0, min(self._search.embedding_seconds, remaining / 2 - _ANSWER_SECONDS))
        self._embedding = asyncio.ensure_future(
            self._search.queries.embed(model, question.text, timeout=share)
        )

    async def _vector(self, user: UserState) -> QueryVector:
        if user.active_model is None:
            return QueryVector(None, "skipped", "no memory has a vector yet")
        if self._question.vector is not None:
            return QueryVector(self._question.vector, "ran")
        if self._embedding is None:
            return QueryVector(None, "skipped", _NO_QUERY)
        return await self._embedding

    def _words(self, user: UserState, legs: Legs) -> dict[int, float]:
        """The keyword leg: scores of the texts that have a word of the question."""
        watch = Stopwatch.start()
        if not self._terms:
            reason = _NO_WORD if self._question.text.strip() else _NO_QUERY
            legs.add(Leg("keyword", "skipped", reason=reason))
            return {}
        statistics = user.statistics
        scores = score(self._postings.answer, statistics.documents, statistics.terms)
        legs.add(Leg("keyword", "ran", watch.seconds, len(scores)))
        return scores

    async def _list(self, connection: Connection, legs: Legs) -> Found:
        """What counts most when nothing is asked: by importance, then recency of use."""
        question = self._question
        for name in ("semantic", "keyword", "entity"):
            legs.add(Leg(name, "skipped", reason=_NO_QUERY))
        listed = memories.page(
            self._scope, question.filters, order_by="usefulness", after=None, limit=question.limit
        )
        await ask(connection, listed)
        whole = memories.by_ids(self._scope, listed.answer.ids)
        await ask(connection, whole)
        if question.min_score is not None and question.min_score > 0:
            return Found(scored=listed.answer.total)
        unscored = dict.fromkeys(question.ranking.weights, 0.0)
        hits = [Hit(memory, 0.0, unscored, ()) for memory in whole.answer]
        return Found(hits, (), listed.answer.total)

    async def _answer(
        self, connection: Connection, user: UserState, sought: Sought, light: Light, legs: Legs
    ) -> Found:
        """Fetch candidates with their features, rank them, and read the best ones whole."""
        question = self._question
        watch = Stopwatch.start()
        candidates = await self._candidates(connection, user, sought)
        if sought.vector is not None:
            with_vector = sum(candidate.cosine is not None for candidate in candidates)
            legs.add(Leg("semantic", "ran", watch.seconds, with_vector))
        if sought.entity_ids:
            mentioned = sum(candidate.entities > 0 for candidate in candidates)
            legs.add(Leg("entity", "ran", watch.seconds, mentioned))
        else:
            legs.add(Leg("entity", "skipped", reason=_NO_NAME))
        ranked = question.ranking.rank(candidates, light, question.weights)
        if light.window is not None:
            legs.add(Leg("temporal", "ran", watch.seconds, sum(item.timely for item in ranked)))
        ranked = ranked[: question.limit]
        if question.min_score is not None:
            ranked = [item for item in ranked if item.score >= question.min_score]
        whole = memories.by_ids(
            self._scope,
            [item.candidate.key for item in ranked],  # type: ignore[misc]
        )
        await ask(connection, whole)
        read = {memory.memory_id: memory for memory in whole.answer}
        return Found(
            hits=[
                Hit(read[key], item.score, item.breakdown, _legs_of(item))  # type: ignore[index]
                for item in ranked
                if (key := item.candidate.key) in read
            ],
            entities=self._entities,
            scored=len(candidates),
        )

    async def _candidates(
        self, connection: Connection, user: UserState, sought: Sought
    ) -> list[Candidate]:
        filters = self._question.filters
        everything = user.statistics.documents
        if filters.none and sought.vector is not None and everything > sought.wanted:
            quick = memory_candidates.among_all(self._scope, sought, memories=everything)
            await ask(connection, quick)
            if len(quick.answer) >= sought.wanted:
                return quick.answer
        exact = memory_candidates.among_filtered(self._scope, sought, filters)
        await ask(connection, exact)
        return exact.answer


def _legs_of(item: Ranked) -> list[str]:
    found = []
    if item.candidate.cosine is not None and item.candidate.cosine > 0:
        found.append("semantic")
    if item.candidate.bm25 > 0:
        found.append("keyword")
    if item.candidate.entities > 0:
        found.append("entity")
    if item.timely:
        found.append("temporal")
    return found
