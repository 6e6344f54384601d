"""The first round trip of a search: the user's state, and the look-ups of the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from hitherto_retrieval.loading import Snapshot
from hitherto_retrieval.search.intent.question import looked_up, terms_of
from hitherto_retrieval.search.lone_characters import LoneCharacters
from hitherto_retrieval.search.names import names_in
from hitherto_retrieval.search.own_name import terms_about_the_user
from hitherto_retrieval.search.question import Question
from hitherto_retrieval.search.reads import CachedReads, UserReads
from hitherto_retrieval.search.term_index import TermIndex
from hitherto_retrieval.snapshots import UnconfirmedSnapshot
from hitherto_retrieval.storage import passages, people
from hitherto_retrieval.storage.candidate import Kind
from hitherto_retrieval.storage.passages import Corpus, Index
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.statement import Asking, Statement
from hitherto_shared.database.pool import Reads
from hitherto_shared.models import Entity, Scope
from hitherto_shared.text.bm25 import Scores, Statistics, TermPostings, score, weights

_PASSAGES: Mapping[Kind, Corpus] = {
    "message": "messages",
    "summary": "summaries",
    "document": "documents",
}
_INDEXES: Mapping[Kind, Index] = {"memory": "memories", **_PASSAGES}


class QuestionLookup:
    """The statements of the first round trip, and their answers.

    For a user with a snapshot, only the state and the postings are read. `settle` reads the rest if
    the snapshot turns out to have another revision.

    Args:
        scope: The user.
        question: The question.
        believed: The unconfirmed snapshot of the user; None to answer without one.

    Attributes:
        names: Substrings of the question that may name an entity.
    """

    def __init__(
        self, scope: Scope, question: Question, believed: UnconfirmedSnapshot | None
    ) -> None:
        self._scope = scope
        self._question = question
        beginning = looked_up(question.text)
        self.names: Sequence[str] = names_in(beginning) if beginning else ()
        self._asked_terms = terms_of(question.text) if question.weighs("keyword") else []
        self._indexes = [_PASSAGES[kind] for kind in question.kinds if kind in _PASSAGES]
        self._believed = believed
        # The source of the answers: the statement that confirms the snapshot, or the look-up.
        self._expected = believed if believed is not None and believed.snapshot else None
        self._snapshot: Snapshot | None = None
        self._lone = LoneCharacters(scope, self._asked_terms, self._indexes)

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """Statements to run first; afterwards `user` is available."""
        if self._expected is None:
            return self._in_full
        asked: list[Statement[Any]] = [self._expected.statement, *self._lone.statements]
        if self._asked_terms:
            asked.append(self._all_postings)
        return asked

    @property
    def user(self) -> UserReadState:
        """The user's switches."""
        if self._expected is None:
            return self._lookup.answer.user
        return self._expected.statement.answer.user

    async def settle(self, database: Reads, asking: Asking) -> UserReads:
        """What answers further questions about the user; the rest can be read afterwards.

        Args:
            database: Where `statements` ran.
            asking: Runs further statements there.
        """
        reads = UserReads(self._scope, self._question.moment)
        if self._believed is None:
            return reads
        self._snapshot = self._believed.confirmed(self.user, database)
        if self._snapshot is not None:
            return CachedReads(self._scope, self._snapshot, self._believed.statement.answer)
        if self._expected is not None:
            self._expected = None
            await asking(*self._in_full)
        return reads

    @cached_property
    def entities(self) -> Sequence[Entity]:
        """The entities that the question names, the most mentioned first."""
        if self._snapshot is None:
            return self._lookup.answer.entities
        return self._snapshot.surroundings.named(self.names)

    @property
    def own_name(self) -> str:
        """The user's name, if an unsealed profile has it."""
        if self._snapshot is None:
            return self._lookup.answer.own_name
        return self._snapshot.surroundings.own_name

    @cached_property
    def terms(self) -> Sequence[str]:
        """The question's terms, without the user's own name."""
        if not self.own_name:
            return self._asked_terms
        return terms_about_the_user(self._question.text, self.own_name, self._asked_terms)

    def scores(self) -> Mapping[Kind, Scores]:
        """For each kind, the scores of texts with a word of the question; empty without words."""
        if not self.terms:
            return {}
        kinds: dict[Kind, None] = dict.fromkeys(self._question.kinds)
        if "message" in kinds:
            # The words of memories count for the messages that they came from.
            kinds["memory"] = None
        return {kind: score(self._postings(kind), *self._statistics_of(kind)) for kind in kinds}

    def weights(self, kind: Kind) -> Mapping[str, float]:
        """The weights of the question's words among the texts of a kind."""
        documents = self._statistics_of(kind).documents
        return weights(self._postings(kind), self.terms, documents)

    def index(self, kind: Kind) -> TermIndex:
        """What the index of a kind holds of the question's words."""
        return TermIndex(self.terms, self._postings(kind), self._statistics_of(kind))

    def holds(self, kind: Kind) -> bool:
        """Whether a kind that is searched has any items: an empty index is not queried."""
        return kind in self._question.kinds and self._statistics_of(kind).documents > 0

    def _postings(self, kind: Kind) -> list[TermPostings]:
        if not self._asked_terms:
            return []
        index = _INDEXES[kind]
        if self._snapshot is not None:
            held: Sequence[TermPostings] = self._all_postings.answer[index]
        elif index == "memories":
            held = self._lookup.answer.postings
        else:
            held = self._passages.answer[index]
        terms = self.terms
        wanted = [segment for segment in held if segment.term in terms]
        return self._lone.counted(wanted, index)

    def _statistics_of(self, kind: Kind) -> Statistics:
        index = _INDEXES[kind]
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
        return passages.all_postings(self._scope, self._indexes, self._asked_terms)

    @cached_property
    def _lookup(self) -> Statement[people.Lookup]:
        return people.lookup(self._scope, terms=self._asked_terms, named=self.names)

    @cached_property
    def _passages(self) -> Statement[dict[str, list[TermPostings]]]:
        return passages.postings(self._scope, self._indexes, self._asked_terms)

    @cached_property
    def _statistics(self) -> Statement[dict[str, Statistics]]:
        return passages.statistics(self._scope)

    @property
    def _in_full(self) -> list[Statement[Any]]:
        asked: list[Statement[Any]] = [self._lookup, *self._lone.statements]
        if self._indexes:
            asked.append(self._statistics)
            if self._asked_terms:
                asked.append(self._passages)
        return asked
