"""The leg `sealed`: all that a search does differently for a user who may have sealed items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from hitherto_retrieval.opening import Opener, any_sealed, is_sealed
from hitherto_retrieval.search.corpora.corpus import Corpus
from hitherto_retrieval.search.corpora.with_sealed import (
    WithSealed,
    has_tags_and_metadata,
    of_memories,
    of_messages,
    of_summaries,
)
from hitherto_retrieval.search.legs import Leg, Legs, Stopwatch
from hitherto_retrieval.search.question import Hit, Question, SearchOutcome
from hitherto_retrieval.search.term_index import TermIndex
from hitherto_retrieval.storage import sealed_items
from hitherto_retrieval.storage.candidate import Kind
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.models import Scope
from hitherto_shared.offloading import in_thread

LEG = "sealed"
_CAPPED = "only the newest that are sealed were compared"


class SealedLeg:
    """The sealed items of one question; it does nothing until `begin` turns it on.

    Attributes:
        opener: The same for lists; None if the user can have no sealed items.
    """

    def __init__(self, opener: Opener, question: Question) -> None:
        self.opener: Opener | None = None
        self._opener = opener
        self._question = question
        self._corpora: list[WithSealed] = []
        self._seconds = 0.0

    async def begin(self) -> None:
        """Search sealed items too: request the key."""
        self.opener = self._opener
        await self._opener.fetch()

    def beside(
        self, corpora: Sequence[Corpus], index: Callable[[Kind], TermIndex], words: Sequence[str]
    ) -> list[Corpus]:
        """The corpora, each with its sealed items."""
        if self.opener is None:
            return list(corpora)
        return [self._beside(corpus, index(corpus.kind), words) for corpus in corpora]

    def _beside(self, corpus: Corpus, indexed: TermIndex, words: Sequence[str]) -> Corpus:
        """A corpus with its sealed items; documents have none."""
        question = self._question
        if corpus.kind == "memory":
            sort = of_memories(question.filters, question.moment)
        elif corpus.kind == "message":
            sort = of_messages(question.passages)
        elif corpus.kind == "summary":
            sort = of_summaries(question.passages)
        else:
            return corpus
        self._corpora.append(WithSealed(corpus, sort, self._opener, indexed, words))
        return self._corpora[-1]

    async def compare(self) -> None:
        """Open and compare the items in a thread: thousands would block the event loop."""
        if self._corpora:
            await in_thread(self._compare)

    def _compare(self) -> None:
        for corpus in self._corpora:
            corpus.compare()
        self._opener.compared = sum(corpus.compared for corpus in self._corpora)
        self._opener.capped = any(corpus.capped for corpus in self._corpora)

    async def hits(self, hits: Sequence[Hit]) -> list[Hit]:
        """Hits, opened, without those that do not open."""
        if not _any_sealed_hit(hits):
            return list(hits)
        watch = Stopwatch()
        opened = await _opened(hits, self._opener)
        self._seconds += watch.seconds
        return opened

    async def opened(self, found: SearchOutcome, legs: Legs) -> SearchOutcome:
        """An answer with everything opened; items that do not open are left out."""
        # One may have been sealed since the user was looked up.
        if not self._opener.asked and not _holds_sealed(found):
            return found
        hits = await self.hits(found.hits)
        watch = Stopwatch()
        opener = self._opener
        conversations: Sequence[Any] = await opener.whole(found.conversations)
        said_in: Sequence[Any] = await opener.whole(found.said_in)
        whole = replace(found, hits=hits, conversations=conversations, said_in=said_in)
        report_sealed(opener, legs, self._seconds + watch.seconds)
        return whole


def report_sealed(opener: Opener, legs: Legs, seconds: float) -> None:
    """Report the sealed leg; no report if the key was not needed.

    A second report, after more items were opened, replaces the first.
    """
    if opener.failure is not None:
        if opener.missed:
            state = "failed" if opener.degraded else "skipped"
            legs.add(Leg(LEG, state, seconds, reason=opener.failure.message))
    elif opener.asked:
        said = [_CAPPED] if opener.capped else []
        if opener.broken:
            said.append(f"{len(opener.broken)} left out that did not open")
        found = opener.compared or opener.opened
        legs.add(Leg(LEG, "ran", seconds, found, reason="; ".join(said)))


async def for_a_list(
    scope: Scope,
    filters: Filters,
    moment: Moment | None,
    opener: Opener,
    ask: Callable[[Statement[Any]], Awaitable[None]],
) -> Filters:
    """The filters of a list, with the sealed memories that it may show.

    Without a key it shows none, and its count includes only what it shows. Tags and metadata are
    matched in the opened items.
    """
    has_key = await opener.fetch() is not None
    if has_key and not filters.tags and not filters.metadata:
        return filters
    held = sealed_items.memories(scope, filters, moment)
    await ask(held)
    opener.capped = len(held.answer) > sealed_items.MEMORIES
    shown = []
    for item in held.answer[: sealed_items.MEMORIES]:
        values = opener.values(item.sealed, item.place)
        if values is not None and has_tags_and_metadata(values, filters):
            shown.append(item.candidate.key)
    return replace(filters, sealed_ids=shown)  # type: ignore[arg-type]


def _holds_sealed(found: SearchOutcome) -> bool:
    """Whether part of an answer must be opened before it can be shown."""
    return any_sealed((*found.conversations, *found.said_in)) or _any_sealed_hit(found.hits)


def _any_sealed_hit(hits: Sequence[Hit]) -> bool:
    return any(is_sealed(hit.item) or (hit.excerpt and any_sealed(hit.excerpt)) for hit in hits)


async def _opened(hits: Sequence[Hit], opener: Opener) -> list[Hit]:
    return [
        replace(hit, item=item, excerpt=await opener.whole(hit.excerpt))
        for hit in hits
        for item in await opener.whole([hit.item])
    ]
