"""The input and output of rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hitherto_retrieval.storage.candidate import Candidate
from hitherto_shared.dates.window import Window

ASSISTANT = 0.7
"""What an assistant said counts less than what people said, unless the question asks for it."""


@dataclass(frozen=True, slots=True)
class QueryIntent:
    """The properties of a question that rankings use.

    Attributes:
        now: The time relative to which ages are computed.
        words: The query's words, folded, in order and without repetition.
        names: Folded substrings of the query that may be names.
        window: The time that the question names, if any.
        most_recent: The question asks for the most recent ("last email").
        present: It asks for the current state ("where does she live now?").
        topic: It has a subject; only a question for the most recent may have none.
        source_types: Sources of the kind of content that it names (`gmail` for "email"), else
            empty.
        by_spelling: Cosines compare spelling rather than meaning.
        assistant: It asks what the assistant said.
        broad: It asks for many things, such as a list or a summary.
    """

    now: datetime
    words: Sequence[str] = ()
    names: frozenset[str] = frozenset()
    window: Window | None = None
    most_recent: bool = False
    present: bool = False
    topic: bool = True
    source_types: frozenset[str] = frozenset()
    by_spelling: bool = False
    assistant: bool = False
    broad: bool = False

    def trust_in(self, candidate: Candidate) -> float:
        """The factor for who says it: named assistants are people, such as in a group."""
        told = candidate.role == "assistant" and not candidate.speaker
        return ASSISTANT if told and not self.assistant else 1.0


# Not frozen, for the same reason as candidates.
@dataclass(slots=True)
class RankedCandidate:
    """A candidate with its score and the components of the score.

    Attributes:
        score: The sum of `parts`, on the scale.
        parts: What each component adds, in the order of `names`.
        timely: Whether the item lies in or near the time that the question names.
        scale: The divisor of score and components.
    """

    candidate: Candidate
    score: float
    names: Sequence[str]
    parts: Sequence[float]
    timely: bool = False
    scale: float = 1.0

    @property
    def breakdown(self) -> dict[str, float]:
        """What each component adds to the score, by name."""
        return {name: part / self.scale for name, part in zip(self.names, self.parts, strict=True)}


class Ranking(Protocol):
    """A formula that orders candidates of all kinds, on one scale.

    Attributes:
        name: Its name in requests.
        weights: Its components and their default weights; a request may replace any of them.
        lifts: Components that add nothing by themselves, but pass on the scores of other items.
        needs_text_rank: Whether it uses `Candidate.text_rank` and `Candidate.words`.
        dispensable: Components that no other component depends on: if one has no weight, a search
            does not run its leg.
    """

    name: str
    weights: Mapping[str, float]
    lifts: frozenset[str]
    needs_text_rank: bool
    dispensable: frozenset[str]

    def rank(
        self, candidates: Sequence[Candidate], intent: QueryIntent, weights: Mapping[str, float]
    ) -> list[RankedCandidate]:
        """All candidates by score, best first, in the same order at every call.

        Args:
            candidates: The candidates; none is left out.
            intent: The question.
            weights: Weights that replace the defaults, by component.
        """
        ...
