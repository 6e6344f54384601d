"""The first round trip of a search: the user's state, and the look-ups of the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from hitherto_retrieval.search.intent.question import looked_up, terms_of
from hitherto_retrieval.search.lone_characters import LoneCharacters
from hitherto_retrieval.search.names import names_in
from hitherto_retrieval.search.own_name import terms_about_the_user
from hitherto_retrieval.search.question import Question
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.search.term_index import TermIndex
from hitherto_retrieval.storage import passages, people
from hitherto_retrieval.storage.candidate import Kind
from hitherto_retrieval.storage.passages import Corpus, Index
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.statement import Asking, Statement
from hitherto_shared.database.pool import Reads
from hitherto_shared.models import Entity
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
    the snapshot turns out to have another revision; afterwards everything is known.

    Attributes:
        names: Substrings of the question that may name an entity.
        entities: The entities that the question names, the most mentioned first.
        own_name: The user's name, if an unsealed profile has it.
    """

    def __init__(self, question: Question, reads: UserReads) -> None:
        self._scope = scope = reads.scope
        self._question = question
        self._reads = reads
        self.entities: Sequence[Entity] = ()
        self.own_name = ""
        self._statistics: Mapping[Index, Statistics] = {}
        beginning = looked_up(question.text)
        self.names: Sequence[str] = names_in(beginning) if beginning else ()
        self._asked_terms = terms_of(question.text) if question.weighs("keyword") else []
        self._indexes = [_PASSAGES[kind] for kind in question.kinds if kind in _PASSAGES]
        self._lone = LoneCharacters(scope, self._asked_terms, self._indexes)
        # What tells the user's state: the statement that confirms the snapshot, or the look-up.
        self._state = reads.confirming or self._looked_up()
        self._segments = passages.postings(scope, self._indexes, self._asked_terms)

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        """Statements to run first; afterwards `user` is available."""
        asked: list[Statement[Any]] = [self._state, *self._lone.statements]
        if self._asked_terms:
            asked.append(self._segments)
        if self._reads.confirming is None and self._indexes:
            asked.append(self._statistics_asked)
        return asked

    @property
    def user(self) -> UserReadState:
        """The user's switches."""
        return self._state.answer

    async def settle(self, database: Reads, asking: Asking) -> None:
        """Find out what answers further questions about the user."""
        self._reads.confirm(self.user, database)
        snapshot = self._reads.snapshot
        if snapshot is not None:
            self.entities, self.own_name = snapshot.named(self.names), snapshot.own_name
            self._statistics = snapshot.statistics
            return
        if self._reads.confirming is not None:
            self._state = self._looked_up()
            asked: list[Statement[Any]] = [self._statistics_asked] if self._indexes else []
            await asking(self._state, *asked)
        self.entities, self.own_name = self.user.entities, self.user.own_name
        if self._indexes:
            self._statistics = self._statistics_asked.answer

    def _looked_up(self) -> Statement[UserReadState]:
        moment = self._question.moment
        known_at = None if moment is None else moment.known_at
        return people.user(self._scope, named=self.names, known_at=known_at)

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
        postings = self._segments.answer[index]
        if self.terms is not self._asked_terms:
            postings = [segment for segment in postings if segment.term in self.terms]
        return self._lone.counted(postings, index)

    def _statistics_of(self, kind: Kind) -> Statistics:
        index = _INDEXES[kind]
        if index == "memories":
            return self.user.statistics
        return self._statistics.get(index, Statistics(0, 0))

    @cached_property
    def _statistics_asked(self) -> Statement[dict[Index, Statistics]]:
        return passages.statistics(self._scope)
