"""One search, from the words of a question to the complete results.

Two trips to the database: the words, names and switches first, while the question is embedded; then
the candidates of all legs and, on the same connection, the best ones whole. Where what is cached in
this process answers, there is the first trip only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hitherto_retrieval.opening import Opener
from hitherto_retrieval.search.corpora.corpus import CandidateQuery, Corpus
from hitherto_retrieval.search.corpora.memories import MemoryCorpus
from hitherto_retrieval.search.corpora.passages import (
    DocumentCorpus,
    MessageCorpus,
    SummaryCorpus,
)
from hitherto_retrieval.search.corpora.past import PastMemoryCorpus
from hitherto_retrieval.search.deduplication import (
    each_once,
    for_a_prompt,
    repeats,
    to_be_compared,
    to_be_read,
)
from hitherto_retrieval.search.intent.question import (
    Wording,
    looked_up,
    read_question_text,
    terms_of,
)
from hitherto_retrieval.search.legs import Leg, Legs, Stopwatch
from hitherto_retrieval.search.listing import list_items
from hitherto_retrieval.search.names import names_in
from hitherto_retrieval.search.newest_of_each import with_each_kind
from hitherto_retrieval.search.own_name import about_the_user, is_called, terms_about_the_user
from hitherto_retrieval.search.query import Embedding, QueryEmbedders, QueryVector
from hitherto_retrieval.search.question import Hit, Question, SearchOutcome
from hitherto_retrieval.search.question_lookup import QuestionLookup
from hitherto_retrieval.search.ranking.ranking import QueryIntent, RankedCandidate
from hitherto_retrieval.search.ranking.relevance import Relevance
from hitherto_retrieval.search.ranking.standing import as_they_stand
from hitherto_retrieval.search.ranking.weighted import Weighted
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.search.related_conversations import RelatedConversations
from hitherto_retrieval.search.reporting import EPISODIC, NO_WEIGHT, report
from hitherto_retrieval.search.sealed_leg import SealedLeg
from hitherto_retrieval.search.term_index import TermIndex
from hitherto_retrieval.search.whole_results import read_results
from hitherto_retrieval.snapshots import Snapshots, UnconfirmedSnapshot
from hitherto_retrieval.storage.candidate import Kind
from hitherto_retrieval.storage.passages import Corpus as PassageIndex
from hitherto_retrieval.storage.passages import Index
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.standing import Standing
from hitherto_retrieval.storage.statement import Answered, Asking, Statement, ask, asking_at
from hitherto_shared.database.pool import Reads
from hitherto_shared.embeddings import offline
from hitherto_shared.models import Entity, Scope
from hitherto_shared.offloading import in_thread_if_long
from hitherto_shared.text.bm25 import NO_SCORES, Scores, score, weights

CANDIDATES = 30
"""Minimum number of candidates of each leg."""
BLOCK_CANDIDATES = 80
"""The same for a block, which holds more than a list."""
_ANSWER_SECONDS = 0.05
"""Part of the deadline reserved for ranking and the reply; a quarter of a shorter one."""
_READERS_KEPT = 10_000
_NEAREST = 5
_INDEXES: Mapping[Kind, PassageIndex] = {
    "message": "messages",
    "summary": "summaries",
    "document": "documents",
}
_NO_QUERY = "there is no query"
_NO_WORD = "the query has no word to look up"
_CONTENT = "the query asks for another kind of content"


class Search:
    """Answers questions about one user's memory.

    Args:
        queries: Embeds the questions.
        embedding_seconds: Longest wait for a question's vector.
        wording: The words that express requests.
        snapshots: Snapshots of returning users.
    """

    def __init__(
        self,
        queries: QueryEmbedders,
        *,
        embedding_seconds: float,
        wording: Wording,
        snapshots: Snapshots,
    ) -> None:
        self.queries = queries
        self.snapshots = snapshots
        self.embedding_seconds = embedding_seconds
        self.wording = wording
        self._readers: OrderedDict[Scope, str] = OrderedDict()

    def name_of_reader(self, scope: Scope) -> str | None:
        """The name of a recently read user with memories; None without one."""
        return self._readers.get(scope)

    def remember_reader(self, scope: Scope, own_name: str | None) -> None:
        """Cache the names of recently read users, or None for one without memories."""
        self._readers.pop(scope, None)
        if own_name is not None:
            self._readers[scope] = own_name
            if len(self._readers) > _READERS_KEPT:
                self._readers.popitem(last=False)


class SearchRun:
    """One running search.

    `statements` go with the first round trip, whoever makes it; then `finish` answers. The question
    is embedded meanwhile, unless nothing is known about the user yet: no text is sent to a model
    for a user without memories.
    """

    def __init__(
        self,
        search: Search,
        scope: Scope,
        question: Question,
        deadline: float,
        opener: Opener,
        believed: UnconfirmedSnapshot | None = None,
    ) -> None:
        self._search = search
        self._scope = scope
        self._question = question
        self._deadline = deadline
        self._sealed = SealedLeg(opener, question)
        beginning = looked_up(question.text)
        self.names: Sequence[str] = names_in(beginning) if beginning else ()
        self._terms = terms_of(question.text) if question.weighs("keyword") else []
        self._indexes = [_INDEXES[kind] for kind in question.kinds if kind in _INDEXES]
        self._beginning = QuestionLookup(
            scope,
            terms=self._terms,
            names=self.names,
            indexes=self._indexes,
            believed=believed if question.of_the_present else None,
        )
        self._entities: Sequence[Entity] = ()
        self._embedding: Embedding | QueryVector | None = None
        self._embedded_as: tuple[tuple[str, int], str] | None = None
        own_name = search.name_of_reader(scope)
        if own_name is not None:
            self._embed(search.queries.likely, own_name)

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """What to ask before `finish`; then `user` can be read."""
        return self._beginning.statements

    @property
    def user(self) -> UserReadState:
        """The user's switches, once the statements have been asked."""
        return self._beginning.user

    def nothing_to_read(self) -> None:
        """Note that the user turned out to have no memories, or memory switched off."""
        self._search.remember_reader(self._scope, None)

    async def finish(self, database: Reads, legs: Legs) -> SearchOutcome:
        """The answer; `statements` have been asked."""
        beginning = self._beginning
        reads: UserReads | None
        reads = await beginning.settle(database, asking_at(database, self._deadline))
        reads = reads or UserReads(self._scope, self._question.moment)
        user, own_name = beginning.user, beginning.own_name
        named = self._entities = beginning.entities
        if own_name:
            self._terms = terms_about_the_user(self._question.text, own_name, self._terms)
            named = [each for each in named if not is_called(each.name, own_name)]
        self._search.remember_reader(self._scope, own_name)
        watch = Stopwatch()
        if user.active_model is not None:
            self._embed(user.active_model, own_name)
        if user.may_be_sealed:
            await self._sealed.begin()
        if self._question.empty:
            for name in ("semantic", "keyword", "entity"):
                legs.add(Leg(name, "skipped", reason=_NO_QUERY))
            opener = self._sealed.opener
            return await self._run(
                database, legs, lambda c: list_items(c, self._scope, self._question, opener)
            )
        scores = self._words(user, legs)
        intent = read_question_text(
            self._question.text,
            self._question.reference_time,
            user.time_zone or "UTC",
            self._search.wording,
            terms=self._terms,
            names=self.names,
            by_spelling=user.active_model is not None and user.active_model[0] == offline.NAME,
        ).intent
        query = await self._vector(user)
        if query.vector is None:
            legs.add(Leg("semantic", query.state, watch.seconds, reason=query.reason))
        relevance = Relevance(
            intent,
            user.active_model[0]
            if user.active_model is not None and query.vector is not None
            else "",
            {kind: sum(self._weights(kind).values()) for kind in ("memory", *self._question.kinds)},
        )
        looking = CandidateQuery(
            scope=self._scope,
            text=self._question.text,
            vector=query.vector,
            model=user.active_model[0] if user.active_model is not None else "",
            entity_ids=[each.entity_id for each in named]
            if self._question.weighs("entity")
            else [],
            intent=intent,
            wanted=max(
                BLOCK_CANDIDATES if self._question.further else CANDIDATES, self._question.limit
            ),
            newest=self._question.limit if intent.most_recent else 0,
            learnt=scores.get("memory", NO_SCORES),
            with_source=self._question.weighs("source"),
            with_text_rank=self._question.ranking.needs_text_rank,
        )
        corpora = self._corpora(user, intent, legs, reads)

        async def answer(asking: Asking) -> SearchOutcome:
            return await self._answer(asking, corpora, scores, looking, relevance, legs, reads)

        filters, passages = self._question.filters, self._question.passages
        if all(
            reads.has_memories(filters)
            if corpus.kind == "memory"
            else reads.has_passages(corpus.kind, passages)
            for corpus in corpora
        ):
            # There may be nothing to ask: no connection is borrowed before there is.
            return await self._prepared(await answer(asking_at(database, self._deadline)), legs)
        return await self._run(database, legs, lambda c: answer(partial(ask, c)))

    async def _run(self, database: Reads, legs: Legs, work: Any) -> SearchOutcome:
        """The answer that `work` finds on one connection."""
        found: SearchOutcome = await database.run(
            work,
            timeout=self._deadline - asyncio.get_running_loop().time(),
            repeatable=True,
        )
        return await self._prepared(found, legs)

    async def _prepared(self, found: SearchOutcome, legs: Legs) -> SearchOutcome:
        """The answer in the form that is returned."""
        found = await self._sealed.opened(found, legs)
        question, hits = self._question, found.hits
        if question.for_a_prompt:
            hits = await in_thread_if_long(to_be_read(hits), for_a_prompt, hits, question.text)
        limit = len(hits) if found.nearest else question.limit
        shown = hits[:limit]
        if repeats(question.kinds) and not question.empty:
            # Few are left out: hardly more are read than are returned.
            shown = await in_thread_if_long(to_be_compared(shown), each_once, hits, limit)
        if found.nearest:
            return replace(found, hits=(), nearest=shown)
        further: Sequence[Hit] = ()
        if question.further:
            # The block decides by its own lines what repeats another one.
            those = {id(hit) for hit in shown}
            further = [hit for hit in hits if id(hit) not in those][: question.further]
        return replace(found, hits=shown, further=further)

    def _embed(self, model: tuple[str, int], own_name: str) -> None:
        """Start embedding the question, unless that is already running."""
        if not self._question.embedded:
            return
        text = about_the_user(self._question.text, own_name)
        if self._embedded_as == (model, text):
            return
        self._embedded_as = model, text
        remaining = self._deadline - asyncio.get_running_loop().time()
        answer = min(_ANSWER_SECONDS, remaining / 4)
        share = max(0.0, min(self._search.embedding_seconds, remaining / 2 - answer))
        self._embedding = self._search.queries.begin(
            model, text, timeout=share, tenant_id=self._scope.tenant_id
        )

    async def _vector(self, user: UserReadState) -> QueryVector:
        if user.active_model is None:
            return QueryVector(None, "skipped", "no memory has a vector yet")
        if not self._question.compares:
            return QueryVector(None, "skipped", NO_WEIGHT)
        if self._question.vector is not None:
            return QueryVector(self._question.vector, "ran")
        if self._embedding is None:
            return QueryVector(None, "skipped", _NO_QUERY)
        if isinstance(self._embedding, QueryVector):
            return self._embedding
        return await self._embedding.result()

    def _words(self, user: UserReadState, legs: Legs) -> Mapping[Kind, Scores]:
        """The keyword leg: for each kind, the scores of texts with a word of the question."""
        watch = Stopwatch()
        if not self._terms:
            reason = _NO_WORD if self._question.text.strip() else _NO_QUERY
            if not self._question.weighs("keyword"):
                reason = NO_WEIGHT
            legs.add(Leg("keyword", "skipped", reason=reason))
            return {}
        found: dict[Kind, Scores] = {}
        if {"memory", "message"}.intersection(self._question.kinds):
            found["memory"] = self._scores("memories")
        for kind, index in _INDEXES.items():
            if kind in self._question.kinds:
                found[kind] = self._scores(index)
        matching = sum(len(found.get(kind, ())) for kind in self._question.kinds)
        legs.add(Leg("keyword", "ran", watch.seconds, matching))
        return found

    def _scores(self, index: Index) -> Scores:
        beginning = self._beginning
        return score(beginning.postings(index, self._terms), *beginning.statistics(index))

    def _weights(self, kind: Kind) -> Mapping[str, float]:
        """The weights of the question's words among the texts of a kind."""
        index: Index = "memories" if kind == "memory" else _INDEXES[kind]
        beginning = self._beginning
        found = beginning.postings(index, self._terms)
        return weights(found, self._terms, beginning.statistics(index).documents)

    def _corpora(
        self, user: UserReadState, intent: QueryIntent, legs: Legs, reads: UserReads
    ) -> list[Corpus]:
        """What to search: no messages and summaries if the question means existing documents."""
        question = self._question
        without_episodes = bool(intent.source_types) and self._holds("document")
        filters = question.filters
        made: list[Corpus] = []
        for kind in question.kinds:
            if kind == "memory" and question.moment is not None:
                indexed = self._indexed(kind)
                made.append(PastMemoryCorpus(filters, question.moment, indexed))
            elif kind == "memory":
                made.append(MemoryCorpus(filters, user.statistics.documents, reads))
            elif kind in EPISODIC and without_episodes:
                legs.add(Leg("episodic", "skipped", reason=_CONTENT))
            elif not self._holds(kind) and (not user.may_be_sealed or kind == "document"):
                legs.add(Leg("episodic" if kind in EPISODIC else "documents", "ran"))
            elif kind == "document":
                made.append(DocumentCorpus(question.passages))
            elif kind == "message":
                made.append(MessageCorpus(question.passages, reads))
            else:
                made.append(SummaryCorpus(question.passages, reads))
        return self._sealed.beside(made, self._indexed)

    def _indexed(self, kind: Kind) -> TermIndex:
        """What the index of a kind holds of the question's words."""
        index: Index = "memories" if kind == "memory" else _INDEXES[kind]
        postings = self._beginning.postings(index, self._terms)
        return TermIndex(self._terms, postings, self._beginning.statistics(index))

    def _holds(self, kind: Kind) -> bool:
        """Whether a kind has any items: an empty index is not queried."""
        if kind not in self._question.kinds:
            return False
        return self._beginning.statistics(_INDEXES[kind]).documents > 0

    async def _answer(
        self,
        asking: Asking,
        corpora: Sequence[Corpus],
        scores: Mapping[Kind, Scores],
        looking: CandidateQuery,
        relevance: Relevance,
        legs: Legs,
        reads: UserReads,
    ) -> SearchOutcome:
        """Fetch candidates with their features, rank them, and read the best ones whole."""
        question = self._question
        watch = Stopwatch()
        first = [s for c in corpora for s in c.first(looking, scores.get(c.kind, NO_SCORES))]
        standing: Statement[Standing] = Answered(Standing())
        if question.moment is None and "memory" in question.kinds:
            standing = reads.standing(question.filters)
        await asking(*first, standing)
        await self._sealed.compare()
        await asking(*(s for c in corpora for s in c.second()))
        found = {corpus.kind: corpus.candidates() for corpus in corpora}
        candidates = [candidate for kind in found.values() for candidate in kind]
        ranked = question.ranking.rank(candidates, looking.intent, question.weights)
        if looking.intent.most_recent and question.ranking.name == Weighted.name:
            ranked = with_each_kind(ranked, question.kinds, question.limit)
        ranked = as_they_stand(ranked, standing.answer)
        report(question, found, ranked, looking, watch.seconds, legs)
        enough = relevance.enough(ranked, question.min_relevance)
        if question.min_score is not None:
            enough = [item for item in enough if item.score >= question.min_score]
        wanted = _read(question)
        best = enough[:wanted]
        nearest: Sequence[RankedCandidate] = ()
        if question.for_a_prompt and not best:
            nearest = [item for item in ranked if item.candidate.kind == "memory"][:_NEAREST]
        about = RelatedConversations(reads, ranked, best, question, limit=question.conversations)
        hits = await read_results(asking, reads, best or nearest, question, also=about.statements)
        # What is not shown takes no place.
        while len(hits) < question.limit and wanted < len(enough):
            further = enough[wanted : wanted + question.limit]
            hits += await read_results(asking, reads, further, question)
            wanted += question.limit
        return SearchOutcome(
            hits=hits,
            entities=self._entities,
            scored=len(candidates),
            nearest=hits if nearest else (),
            conversations=about.summaries(hits) if best else (),
            said_in=about.said_in(hits) if best else (),
            terms=self._weights("message")
            if question.for_a_prompt and "message" in question.kinds
            else {},
            broad=looking.intent.broad,
            addressed=looking.intent.assistant,
        )


def _read(question: Question) -> int:
    """Number of items to read whole: some more if repetitions are possible."""
    wanted = question.limit + question.further
    return 2 * wanted if repeats(question.kinds) and not question.further else wanted
