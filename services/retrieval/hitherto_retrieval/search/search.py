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
from hitherto_retrieval.search.corpora.corpus import Corpus
from hitherto_retrieval.search.corpora.memories import MemoryCorpus
from hitherto_retrieval.search.corpora.passages import (
    DocumentCorpus,
    MessageCorpus,
    TextCorpus,
)
from hitherto_retrieval.search.deduplication import (
    each_once,
    for_a_prompt,
    repeats,
    to_be_compared,
    to_be_read,
)
from hitherto_retrieval.search.intent.question import (
    Wording,
    read_question_text,
)
from hitherto_retrieval.search.legs import Leg, Legs, Stopwatch
from hitherto_retrieval.search.listing import list_items
from hitherto_retrieval.search.newest_of_each import with_each_kind
from hitherto_retrieval.search.own_name import is_called
from hitherto_retrieval.search.query import QueryEmbedders
from hitherto_retrieval.search.question import Hit, Question, SearchOutcome
from hitherto_retrieval.search.question_lookup import QuestionLookup
from hitherto_retrieval.search.question_vector import QuestionVector
from hitherto_retrieval.search.ranking.ranking import QueryIntent, RankedCandidate
from hitherto_retrieval.search.ranking.relevance import Relevance
from hitherto_retrieval.search.ranking.standing import as_they_stand
from hitherto_retrieval.search.ranking.weighted import Weighted
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.search.related_conversations import RelatedConversations
from hitherto_retrieval.search.reporting import EPISODIC, NO_QUERY, report, report_words
from hitherto_retrieval.search.sealed_leg import SealedLeg
from hitherto_retrieval.search.whole_results import read_results
from hitherto_retrieval.snapshots import Snapshots
from hitherto_retrieval.storage.candidate import Kind
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.standing import Standing
from hitherto_retrieval.storage.statement import Answered, Asking, Statement, ask, asking_at
from hitherto_shared.database.pool import Reads
from hitherto_shared.embeddings import offline
from hitherto_shared.models import Memory, Scope
from hitherto_shared.offloading import in_thread_if_long
from hitherto_shared.text.bm25 import NO_SCORES, Scores

CANDIDATES = 30
"""Minimum number of candidates of each leg."""
BLOCK_CANDIDATES = 80
"""The same for a block, which holds more than a list."""
_READERS_KEPT = 10_000
_NEAREST = 5
_CONTENT = "the query asks for another kind of content"


class Search:
    """Answers questions about one user's memory."""

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
        question: Question,
        reads: UserReads,
        deadline: float,
        opener: Opener,
    ) -> None:
        self._search = search
        self._scope = scope = reads.scope
        self._question = question
        self._deadline = deadline
        self._sealed = SealedLeg(opener, question)
        if not question.of_the_present:
            reads = UserReads(scope, question.moment)
        self._reads = reads
        self._lookup = QuestionLookup(question, reads)
        self._vector = QuestionVector(
            search.queries,
            question,
            tenant_id=scope.tenant_id,
            deadline=deadline,
            seconds=search.embedding_seconds,
        )
        own_name = search.name_of_reader(scope)
        if own_name is not None:
            self._vector.begin(search.queries.likely, own_name)

    @property
    def names(self) -> Sequence[str]:
        """Substrings of the question that may name an entity."""
        return self._lookup.names

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """What to ask before `finish`; then `user` can be read."""
        return self._lookup.statements

    @property
    def user(self) -> UserReadState:
        """The user's switches, once the statements have been asked."""
        return self._lookup.user

    def nothing_to_read(self) -> None:
        """Note that the user turned out to have no memories, or memory switched off."""
        self._search.remember_reader(self._scope, None)

    async def finish(self, database: Reads, legs: Legs) -> SearchOutcome:
        """The answer; `statements` have been asked."""
        lookup, question, reads = self._lookup, self._question, self._reads
        await lookup.settle(database, asking_at(database, self._deadline))
        user, own_name = lookup.user, lookup.own_name
        self._search.remember_reader(self._scope, own_name)
        watch = Stopwatch()
        if user.active_model is not None:
            self._vector.begin(user.active_model, own_name)
        if user.may_be_sealed:
            await self._sealed.begin()
        if question.empty:
            for name in ("semantic", "keyword", "entity"):
                legs.add(Leg(name, "skipped", reason=NO_QUERY))
            opener = self._sealed.opener
            return await self._run(
                database, legs, lambda c: list_items(c, self._scope, question, opener)
            )
        in_words = Stopwatch()
        scores = lookup.scores()
        report_words(question, scores, in_words.seconds, legs)
        model = user.active_model[0] if user.active_model is not None else ""
        intent = read_question_text(
            question.text,
            question.reference_time,
            user.time_zone or "UTC",
            self._search.wording,
            names=lookup.names,
            by_spelling=model == offline.NAME,
        )
        embedded = await self._vector.result(user.active_model)
        if embedded.vector is None:
            legs.add(Leg("semantic", embedded.state, watch.seconds, reason=embedded.reason))
        relevance = Relevance(
            intent,
            model if embedded.vector is not None else "",
            {kind: sum(lookup.weights(kind).values()) for kind in {"memory", *question.kinds}},
        )
        # The user's own name tells nothing apart.
        named = [
            each for each in lookup.entities if not (own_name and is_called(each.name, own_name))
        ]
        query = ItemQuery(
            self._scope,
            vector=embedded.vector,
            model=model,
            wanted=max(BLOCK_CANDIDATES if question.further else CANDIDATES, question.limit),
            entity_ids=[each.entity_id for each in named] if question.weighs("entity") else [],
            since=intent.window.start if intent.window else None,
            until=intent.window.end if intent.window else None,
            newest=question.limit if intent.most_recent else 0,
            with_source=question.weighs("source"),
            text_query=question.text if question.ranking.needs_text_rank else None,
        )
        corpora = self._corpora(user, intent, legs, scores.get("memory", NO_SCORES))

        async def answer(asking: Asking) -> SearchOutcome:
            return await self._answer(asking, corpora, scores, query, intent, relevance, legs)

        if all(
            reads.has_memories(question.filters)
            if corpus.kind == "memory"
            else reads.has_passages(corpus.kind, question.passages)
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
        limit = len(hits) if found.nearest else question.limit
        shown = hits[:limit]
        if repeats(question.kinds) and not question.empty:
            # Few are left out: hardly more are read than are returned.
            shown = await in_thread_if_long(to_be_compared(shown), each_once, hits, limit)
        told = [(hit, hit.item) for hit in shown if isinstance(hit.item, Memory)]
        used = self._reads.used([memory for _, memory in told])
        for (hit, _), memory in zip(told, used, strict=True):
            hit.item = memory
        if found.nearest:
            return replace(found, hits=(), nearest=shown)
        further: Sequence[Hit] = ()
        if question.further:
            # The block decides by its own lines what repeats another one.
            those = {id(hit) for hit in shown}
            further = [hit for hit in hits if id(hit) not in those][: question.further]
        return replace(found, hits=shown, further=further)

    def _corpora(
        self,
        user: UserReadState,
        intent: QueryIntent,
        legs: Legs,
        learnt: Scores,
    ) -> list[Corpus]:
        """What to search: no messages and summaries if the question means existing documents."""
        question, reads = self._question, self._reads
        without_episodes = bool(intent.source_types) and self._lookup.holds("document")
        made: list[Corpus] = []
        for kind in question.kinds:
            if kind == "memory":
                indexed = None if question.moment is None else self._lookup.index(kind)
                count = user.statistics.documents
                made.append(MemoryCorpus(question.filters, count, reads, indexed))
            elif kind in EPISODIC and without_episodes:
                legs.add(Leg("episodic", "skipped", reason=_CONTENT))
            elif not self._lookup.holds(kind) and (not user.may_be_sealed or kind == "document"):
                legs.add(Leg("episodic" if kind in EPISODIC else "documents", "ran"))
            elif kind == "document":
                made.append(DocumentCorpus(question.passages, reads, intent.source_types))
            elif kind == "message":
                made.append(MessageCorpus(question.passages, reads, learnt))
            else:
                made.append(TextCorpus(kind, question.passages, reads))
        return self._sealed.beside(made, self._lookup.index, intent.words)

    async def _answer(
        self,
        asking: Asking,
        corpora: Sequence[Corpus],
        scores: Mapping[Kind, Scores],
        query: ItemQuery,
        intent: QueryIntent,
        relevance: Relevance,
        legs: Legs,
    ) -> SearchOutcome:
        """Fetch candidates with their features, rank them, and read the best ones whole."""
        question, reads = self._question, self._reads
        watch = Stopwatch()
        first = [
            statement
            for corpus in corpora
            for statement in corpus.first(replace(query, bm25=scores.get(corpus.kind, NO_SCORES)))
        ]
        standing: Statement[Standing] = Answered(Standing())
        if question.moment is None and "memory" in question.kinds:
            standing = reads.standing(question.filters)
        await asking(*first, standing)
        await self._sealed.compare()
        await asking(*(s for c in corpora for s in c.second()))
        found = {corpus.kind: corpus.candidates() for corpus in corpora}
        candidates = [candidate for kind in found.values() for candidate in kind]
        ranked = question.ranking.rank(candidates, intent, question.weights)
        if intent.most_recent and question.ranking.name == Weighted.name:
            ranked = with_each_kind(ranked, question.kinds, question.limit)
        ranked = as_they_stand(ranked, standing.answer)
        report(question, found, ranked, query, intent, watch.seconds, legs)
        enough = relevance.enough(ranked, question.min_relevance)
        if question.min_score is not None:
            enough = [item for item in enough if item.score >= question.min_score]
        wanted = _read(question)
        best = enough[:wanted]
        about = RelatedConversations(reads, ranked, best, question, limit=question.conversations)
        read = await self._whole(asking, best, about.statements)
        hits = await self._belonging(read)
        # What is not shown takes no place.
        while len(hits) < question.limit and wanted < len(enough):
            following = enough[wanted : 2 * wanted]
            wanted += len(following)
            read += await self._whole(asking, following)
            hits = await self._belonging(read)
        nearest: Sequence[Hit] = ()
        if question.for_a_prompt and not hits:
            memories = [item for item in ranked if item.candidate.kind == "memory"]
            nearest = await self._whole(asking, memories[:_NEAREST])
        conversations, said_in = about.summaries(hits) if best else ([], [])
        return SearchOutcome(
            hits=nearest or hits,
            entities=self._lookup.entities,
            scored=len(candidates),
            nearest=nearest,
            conversations=conversations,
            said_in=said_in,
            terms=self._weights(question) if question.for_a_prompt else {},
            broad=intent.broad,
            addressed=intent.assistant,
        )

    async def _whole(
        self,
        asking: Asking,
        items: Sequence[RankedCandidate],
        also: Sequence[Statement[Any]] = (),
    ) -> list[Hit]:
        """The items as they are shown, opened; `also` runs with them."""
        found = await read_results(asking, self._reads, items, self._question, also=also)
        return await self._sealed.hits(found)

    async def _belonging(self, hits: list[Hit]) -> list[Hit]:
        """The hits that belong in the answer."""
        if not self._question.for_a_prompt:
            return hits
        return await in_thread_if_long(to_be_read(hits), for_a_prompt, hits, self._question.text)

    def _weights(self, question: Question) -> Mapping[str, float]:
        """The weights of the question's words among messages, else among memories."""
        kinds: Sequence[Kind] = ("message", "memory")
        return next((self._lookup.weights(each) for each in kinds if each in question.kinds), {})


def _read(question: Question) -> int:
    """Number of items to read whole: some more if repetitions are possible."""
    wanted = question.limit + question.further
    return 2 * wanted if repeats(question.kinds) and not question.further else wanted
