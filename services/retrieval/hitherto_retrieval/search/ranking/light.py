"""What rankings know of a question, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hitherto_retrieval.search.dates.window import Window
from hitherto_retrieval.storage.candidate import Candidate


@dataclass(frozen=True, slots=True)
class Light:
    """In which light candidates are seen.

    Attributes:
        now: The moment from which ages are counted.
        words: The query's words, folded, in order and without repetition.
        names: Folded strings of the query that somebody or something may be called.
        window: The time the question is about, if it names one.
        most_recent: It asks for what came last ("last email").
        present: It asks how things stand today ("where does she live now?").
        topic: It is about something; only a question for what came last may be about nothing.
        source_types: Sources of the kind of content it names (`gmail` for "email"), else empty.
        by_spelling: Cosines compare how words are spelt, not what they mean.
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


# Not frozen for the same reason as candidates are not.
@dataclass(slots=True)
class RankedCandidate:
    """A candidate with its score and what that is made of.

    Attributes:
        candidate: What was weighed.
        score: The sum of `parts`, on the scale.
        names: Names of the components.
        parts: What each of them adds, in the order of `names`.
        timely: Whether the item lies in the time the question names, or near it.
        scale: What scores and parts are divided by.
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
    """A formula by which candidates of all kinds are put in order, on one scale.

    Attributes:
        name: What a request calls it.
        weights: Its components and their default weights; a request may replace any of them.
        lifts: Components that add nothing by themselves: they pass on what others have.
        needs_text_rank: Whether it uses `Candidate.text_rank` and `Candidate.words`.
        dispensable: Components that nothing else depends on: where one has no weight, a search does
            not look for it.
    """

    name: str
    weights: Mapping[str, float]
    lifts: frozenset[str]
    needs_text_rank: bool
    dispensable: frozenset[str]

    def rank(
        self, candidates: Sequence[Candidate], light: Light, weights: Mapping[str, float]
    ) -> list[RankedCandidate]:
        """All candidates by score, best first, in an order that is the same at every call.

        Args:
            candidates: What may be an answer; none is left out.
            light: The question.
            weights: Weights that replace the defaults, by component.
        """
        ...
