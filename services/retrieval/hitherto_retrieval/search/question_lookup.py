"""The first round trip of a search: the user's state, and the look-ups of the question."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from hitherto_retrieval.loading import Snapshot
from hitherto_retrieval.search.lone_characters import LoneCharacters
from hitherto_retrieval.search.reads import CachedReads
from hitherto_retrieval.snapshots import UnconfirmedSnapshot
from hitherto_retrieval.storage import passages, people
from hitherto_retrieval.storage.passages import Corpus, Index
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.statement import Asking, Statement
from hitherto_shared.database.pool import Reads
from hitherto_shared.models import Entity, Scope
from hitherto_shared.text.bm25 import Statistics, TermPostings


class QuestionLookup:
    """The statements of the first round trip, and their answers.

    For a user with a snapshot, only the state and the postings are read. `settle` reads the rest if
    the snapshot turns out to have another revision.

    Args:
        scope: The user.
        terms: The terms to look up in the keyword indexes.
        names: Substrings that may name an entity.
        indexes: The indexes to search besides that of memories.
        believed: The unconfirmed snapshot of the user; None to answer without one.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        terms: Sequence[str],
        names: Sequence[str],
        indexes: Sequence[Corpus],
        believed: UnconfirmedSnapshot | None,
    ) -> None:
        self._terms = terms
        self._names = names
        self._indexes = indexes
        self._believed = believed
        # The source of the answers: the statement that confirms the snapshot, or the look-up.
        self._expected = believed if believed is not None and believed.snapshot else None
        self._snapshot: Snapshot | None = None
        self._scope = scope
        self._lone = LoneCharacters(scope, terms, indexes)

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """Statements to run first; afterwards `user` is available."""
        if self._expected is None:
            return self._in_full
        asked: list[Statement[Any]] = [self._expected.statement, *self._lone.statements]
        if self._terms:
            asked.append(self._all_postings)
        return asked

    @property
    def user(self) -> UserReadState:
        """The user's switches."""
        if self._expected is None:
            return self._lookup.answer.user
        return self._expected.statement.answer.user

    async def settle(self, database: Reads, asking: Asking) -> CachedReads | None:
        """What the confirmed snapshot answers; the rest can be read afterwards.

        Args:
            database: Where `statements` ran.
            asking: Runs further statements there.
        """
        if self._believed is None:
            return None
        self._snapshot = self._believed.confirmed(self.user, database)
        if self._snapshot is not None:
            return CachedReads(self._scope, self._snapshot, self._believed.statement.answer)
        if self._expected is not None:
            self._expected = None
            await asking(*self._in_full)
        return None

    @property
    def entities(self) -> Sequence[Entity]:
        """The entities that the question names, the most mentioned first."""
        if self._snapshot is None:
            return self._lookup.answer.entities
        return self._snapshot.surroundings.named(self._names)

    @property
    def own_name(self) -> str:
        """The user's name, if an unsealed profile has it."""
        if self._snapshot is None:
            return self._lookup.answer.own_name
        return self._snapshot.surroundings.own_name

    def postings(self, index: Index, terms: Sequence[str]) -> list[TermPostings]:
        """The postings of an index for the terms to look up."""
        if not self._terms:
            return []
        if self._snapshot is not None:
            held: Sequence[TermPostings] = self._all_postings.answer[index]
        elif index == "memories":
            held = self._lookup.answer.postings
        else:
            held = self._passages.answer[index]
        wanted = [segment for segment in held if segment.term in terms]
        return self._lone.counted(wanted, index)

    def statistics(self, index: Index) -> Statistics:
        """The number of texts and terms of an index."""
        if index == "memories":
            return self.user.statistics
        if self._snapshot is not None:
            held = self._snapshot.surroundings.statistics
        else:
            held = self._statistics.answer if self._indexes else {}
        return held.get(index, Statistics(0, 0))

    # Either with a snapshot or without one, some are unnecessary.
    @cached_property
    def _all_postings(self) -> Statement[dict[Index, list[TermPostings]]]:
        return passages.all_postings(self._scope, self._indexes, self._terms)

    @cached_property
    def _lookup(self) -> Statement[people.Lookup]:
        return people.lookup(self._scope, terms=self._terms, named=self._names)

    @cached_property
    def _passages(self) -> Statement[dict[str, list[TermPostings]]]:
        return passages.postings(self._scope, self._indexes, self._terms)

    @cached_property
    def _statistics(self) -> Statement[dict[str, Statistics]]:
        return passages.statistics(self._scope)

    @property
    def _in_full(self) -> list[Statement[Any]]:
        asked: list[Statement[Any]] = [self._lookup, *self._lone.statements]
        if self._indexes:
            asked.append(self._statistics)
            if self._terms:
                asked.append(self._passages)
        return asked
