"""Searches sealed items by opening and comparing them one by one.

Sealed text is in no index and has no vector in clear. The newest items are therefore read, opened
and given the same features as other items: cosine, words, time. Rankings see no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import Any

import numpy as np

from hitherto_retrieval.opening import Opener
from hitherto_retrieval.search.corpora.corpus import Corpus
from hitherto_retrieval.search.term_index import TermIndex
from hitherto_retrieval.search.words import words_in
from hitherto_retrieval.storage import sealed_items
from hitherto_retrieval.storage.candidate import Candidate, Key, Kind
from hitherto_retrieval.storage.filters import Filters, has_all
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.moment import Moment
from hitherto_retrieval.storage.passage_filters import PassageFilters
from hitherto_retrieval.storage.sealed_items import SealedItem
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.text.passages import message_text, summary_text

_ONCE = 0.0608
"""Postgres' ts_rank of a text that contains each word of the query once. Postgres cannot rank
sealed text, so a sealed item with all of the words gets this value."""

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SealedKind:
    """One kind of sealed items.

    Attributes:
        look: Finds the newest.
        most: Maximum number to compare.
        text: The text that counts, as in the keyword index of this kind.
        shown: `Candidate.words` of an item.
        passes: Filters on values that only the opened item reveals.
    """

    look: Callable[[ItemQuery], Statement[list[SealedItem]]]
    most: int
    text: Callable[[Values], str]
    shown: Callable[[Values], str]
    passes: Callable[[Values], bool]


def of_memories(filters: Filters, moment: Moment | None) -> SealedKind:
    """Sealed memories, present or as of a moment."""
    return SealedKind(
        look=lambda query: sealed_items.memories(
            query.scope,
            filters,
            moment,
            model=query.model,
            with_vectors=query.vector is not None,
        ),
        most=sealed_items.MEMORIES,
        text=lambda values: "\n".join((values["content"], *values.get("keywords", ()))),
        shown=lambda values: "",
        passes=lambda values: has_tags_and_metadata(values, filters),
    )


def of_messages(filters: PassageFilters) -> SealedKind:
    """Sealed messages."""
    return SealedKind(
        look=lambda query: sealed_items.messages(query.scope, filters),
        most=sealed_items.MESSAGES,
        text=lambda values: message_text(values.get("name", ""), values["content"]),
        shown=lambda values: str(values["content"]),
        passes=lambda values: has_all(values.get("metadata", {}), filters.metadata),
    )


def of_summaries(filters: PassageFilters) -> SealedKind:
    """Sealed summaries of conversations."""
    return SealedKind(
        look=lambda query: sealed_items.summaries(query.scope, filters),
        most=sealed_items.SUMMARIES,
        text=lambda values: summary_text(
            values["title"],
            values.get("summary", ""),
            values.get("key_topics", ()),
            values.get("technical_topics", ()),
        ),
        shown=lambda values: "\n".join(
            part for part in (values["title"], values.get("summary", "")) if part
        ),
        passes=lambda values: True,
    )


class WithSealed:
    """A corpus together with its sealed items.

    `compare` opens what `first` found, before `candidates` is read.

    Args:
        beside: The corpus that the index and the clear vectors search.
        sort: The kind of sealed items.
        opener: Holds the key; without a key, sealed items are left out.
        indexed: Index statistics of the question's words, so that a word that is rare in the index
            also weighs much here.
        words: The question's words, as rankings count them.
    """

    def __init__(
        self,
        beside: Corpus,
        sort: SealedKind,
        opener: Opener,
        indexed: TermIndex,
        words: Sequence[str],
    ) -> None:
        self._beside = beside
        self._sort = sort
        self._opener = opener
        self._indexed = indexed
        self._words = words
        self._closed: set[Key] = set()
        self._mine: list[Candidate] = []
        self.capped = False

    @property
    def kind(self) -> Kind:
        """The kind of its items."""
        return self._beside.kind

    @property
    def compared(self) -> int:
        """Number of sealed items that were opened and compared."""
        return len(self._mine)

    def first(self, query: ItemQuery) -> Sequence[Statement[Any]]:
        """See `Corpus.first`."""
        self._query = query
        self._found = self._sort.look(query)
        return [*self._beside.first(query), self._found]

    def second(self) -> Sequence[Statement[Any]]:
        """See `Corpus.second`."""
        return self._beside.second()

    def compare(self) -> None:
        """Open the items found and compute their features; uses only the CPU."""
        found = self._found.answer
        self.capped = len(found) > self._sort.most
        self._closed, opened = set(), []
        for item in found[: self._sort.most]:
            values = self._opener.values(item.sealed, item.place)
            if values is None:
                self._closed.add(item.candidate.key)
            elif self._sort.passes(values):
                opened.append((item, values))
        texts = [self._sort.text(values) for _, values in opened]
        words = self._indexed.scores_of(texts, more=True)
        cosines = self._cosines([item for item, _ in opened])
        self._mine = [
            replace(
                item.candidate,
                speaker=values.get("name", "") if self.kind == "message" else "",
                bm25=bm25,
                cosine=cosine,
                text_rank=self._text_rank(values),
                words=self._sort.shown(values) if self._query.text_query is not None else "",
            )
            for (item, values), bm25, cosine in zip(opened, words, cosines, strict=True)
        ]

    def candidates(self) -> list[Candidate]:
        """See `Corpus.candidates`: the clear ones, and of the sealed ones the best of each leg."""
        found = {c.key: c for c in self._beside.candidates() if c.key not in self._closed}
        admitted = {candidate.key for candidate in self._best()}
        for mine in self._mine:
            # Another leg may have found it by time and importance, without its words.
            held = found.get(mine.key)
            if held is not None:
                found[mine.key] = replace(
                    held,
                    speaker=mine.speaker,
                    bm25=mine.bm25,
                    cosine=mine.cosine,
                    text_rank=mine.text_rank,
                    words=mine.words,
                )
            elif mine.key in admitted:
                found[mine.key] = mine
        if self.kind == "memory" and self._query.newest:
            newest = {c.key for c in self._newest(list(found.values()))}
            return [replace(c, most_recent=c.key in newest) for c in found.values()]
        return list(found.values())

    def _best(self) -> list[Candidate]:
        """The candidates of each leg."""
        query, mine = self._query, self._mine
        best = nlargest(query.wanted, (c for c in mine if c.bm25 > 0), key=lambda c: c.bm25)
        if self.kind != "memory":
            return best
        best += nlargest(query.wanted, mine, key=_nearness)
        since, until = query.since, query.until
        if since is not None and until is not None:
            timely = (c for c in mine if since <= c.happened_at < until)
            best += nlargest(query.wanted, timely, key=lambda c: (c.importance, c.happened_at))
        return best + self._newest(mine)

    def _newest(self, found: Sequence[Candidate]) -> list[Candidate]:
        return nlargest(self._query.newest, found, key=lambda c: (c.newness, c.key))

    def _cosines(self, items: Sequence[SealedItem]) -> list[float | None]:
        cosines: list[float | None] = [None] * len(items)
        vector = self._query.vector
        if vector is None:
            return cosines
        asked = np.asarray(vector, dtype=np.float32)
        for place, item in enumerate(items):
            if item.vector is None:
                continue
            plain = self._opener.bytes_at(item.vector, item.vector_place)
            if plain is not None and len(plain) == 2 * len(asked):
                own = np.frombuffer(plain, dtype="<f2").astype(np.float32)
                cosines[place] = float(own @ asked)
        return cosines

    def _text_rank(self, values: Values) -> float:
        words = self._words
        if self.kind != "memory" or self._query.text_query is None or not words:
            return 0.0
        return _ONCE if words_in(words, values["content"]) == len(words) else 0.0


def has_tags_and_metadata(values: Values, filters: Filters) -> bool:
    """Whether an opened memory has one of the tags and all of the metadata that filters require."""
    if filters.tags and not set(filters.tags).intersection(values.get("tags", ())):
        return False
    return has_all(values.get("metadata", {}), filters.metadata)


def _nearness(candidate: Candidate) -> tuple[Any, ...]:
    near = candidate.cosine
    return near is not None, near or 0.0, candidate.importance, candidate.created_at
