"""Searches messages, summaries and documents."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, cast

from hitherto_retrieval.search.ranking.turns import FARTHEST
from hitherto_retrieval.search.reads import FoundCandidates, UserReads
from hitherto_retrieval.storage.candidate import Candidate, Key, Kind, MessageKey
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.neighbours import Facts
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.statement import Answered, Statement
from hitherto_shared.text.bm25 import NO_SCORES, Scores

_LIFTED = 20
"""Number of messages whose neighbours become candidates too."""


class TextCorpus:
    """The passages of a kind: messages, summaries or chunks of documents."""

    def __init__(self, kind: Kind, filters: PassageFilters, reads: UserReads) -> None:
        self.kind = kind
        self._filters = filters
        self._reads = reads
        self._found: list[FoundCandidates] = []

    def first(self, query: ItemQuery) -> Sequence[Statement[Any]]:
        """See `Corpus.first`."""
        self._query = query
        self._found = [self._reads.passages(self.kind, query, self._filters)]
        if query.since is not None and query.until is not None:
            # "What did I say about work yesterday?" is close to all that was ever said about work.
            of_the_time = self._filters.within(query.since, query.until)
            self._found.append(self._reads.passages(self.kind, query, of_the_time))
        if query.newest:
            self._found.append(self._newest())
        return list(self._found)

    def _newest(self) -> FoundCandidates:
        query = self._query
        return self._reads.newest(self.kind, query, self._filters, limit=query.newest)

    def second(self) -> Sequence[Statement[Any]]:
        """See `Corpus.second`."""
        return ()

    def candidates(self) -> list[Candidate]:
        """See `Corpus.candidates`: each once; one of the most recent stays marked so."""
        first, *others = [statement.answer for statement in self._found]
        if not others:
            return first
        # Those of one statement are distinct.
        distinct = {candidate.key: candidate for candidate in first}
        for found in others:
            for candidate in found:
                if candidate.most_recent or candidate.key not in distinct:
                    distinct[candidate.key] = candidate
        return list(distinct.values())


class MessageCorpus(TextCorpus):
    """What users and assistants said, with what was said around it and learnt from it.

    Args:
        filters: Which messages count.
        reads: Finds them.
        learnt: Scores of the user's memories, whose words count for the messages they came from.
    """

    def __init__(
        self, filters: PassageFilters, reads: UserReads, learnt: Scores = NO_SCORES
    ) -> None:
        super().__init__("message", filters, reads)
        self._learnt = learnt
        self._facts: Statement[dict[MessageKey, Facts]] = Answered({})

    def second(self) -> Sequence[Statement[Any]]:
        """See `Corpus.second`: neighbours of the best messages, memories learnt from all."""
        query = self._query
        distinct = super().candidates()
        keys = dict.fromkeys(_keys_of(distinct))
        best = sorted(distinct, key=_promise, reverse=True)[:_LIFTED]
        asked: list[Statement[Any]] = []
        if best and self._filters.all_that_was_said:
            given = _keys_of(best)
            around = self._reads.around(query, given)
            self._found.append(around)
            asked.append(around)
            if isinstance(around, Answered):
                keys.update(dict.fromkeys(_keys_of(around.answer)))
            else:
                keys.update(dict.fromkeys(_beside(given)))
        self._facts = self._reads.facts(query, list(keys)) if keys else Answered({})
        return [*asked, self._facts]

    def candidates(self) -> list[Candidate]:
        """See `Corpus.candidates`."""
        found = super().candidates()
        facts = self._facts.answer
        learnt = [
            (candidate, known)
            for candidate, key in zip(found, _keys_of(found), strict=True)
            if (known := facts.get(key)) is not None
        ]
        # Looked up all at once: one by one they take half as long as the ranking.
        numbers = [number for _, known in learnt for number in known.lexical_nos]
        scores = iter(self._learnt.of_each(numbers))
        for candidate, known in learnt:
            candidate.fact_cosine = known.cosine
            count = len(known.lexical_nos)
            # Most messages taught one thing.
            candidate.fact_bm25 = (
                next(scores) if count == 1 else max(islice(scores, count), default=0.0)
            )
        return found


class DocumentCorpus(TextCorpus):
    """Document chunks.

    If the question names a kind of content, the most recent documents come from its sources only;
    the others can still be found by their content.
    """

    def __init__(
        self, filters: PassageFilters, reads: UserReads, sources: Collection[str] = ()
    ) -> None:
        super().__init__("document", filters, reads)
        self._sources = sources

    def _newest(self) -> FoundCandidates:
        """So many of each source."""
        wanted, query = self._filters, self._query
        if self._sources and not wanted.source_types:
            wanted = replace(wanted, source_types=sorted(self._sources))
        of_each = max(2, query.newest // max(1, len(wanted.source_types or ())))
        return self._reads.newest(self.kind, query, wanted, limit=of_each)

    def second(self) -> Sequence[Statement[Any]]:
        """See `Corpus.second`.

        If so many of the best by words have expired that others take their places, all are asked
        for: the first statement was given the best alone.
        """
        query = self._query
        if not self._filters.all_documents or len(query.bm25) <= query.wanted:
            return ()
        least = query.bm25.least_of_best(query.wanted)
        best = [each for each in self._found[0].answer if each.bm25 >= least]
        if len(best) >= query.wanted:
            return ()
        self._found[0] = self._reads.passages(self.kind, query, self._filters, among_all=True)
        return self._found[:1]


def _beside(given: Sequence[MessageKey]) -> list[MessageKey]:
    """The keys within reach of the given ones, whether or not a message has them."""
    return [
        (conversation, number + distance)
        for conversation, number in given
        for distance in range(-FARTHEST, FARTHEST + 1)
        if distance
    ]


def _keys_of(messages: Sequence[Candidate]) -> list[MessageKey]:
    return cast(list[MessageKey], [message.key for message in messages])


def _promise(candidate: Candidate) -> tuple[float, Key]:
    """A first estimate of a message's score, before its neighbours are known; then its position."""
    words = candidate.bm25 / (candidate.bm25 + 8.0)
    return (candidate.cosine or 0.0) + words, candidate.key
