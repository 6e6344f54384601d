"""How good one answer is: recall and nDCG of results, and the evidence that stands in a text."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.locomo.data import BenchmarkQuestion
from hitherto_retrieval.render.values import clean

TOP = 10
"""How many results are asked for."""
FEW = 5
_SHOWN = 200
"""Characters of a message by which it is recognised: a long one may be cut."""


class QuestionScore(NamedTuple):
    """Of one question, each in 0..1.

    Attributes:
        recall_10: The share of its gold messages that are behind the first ten results.
        recall_5: The same of the first five.
        ndcg_10: Whether results with a gold message behind them stand in front. It counts up to as
            many of them as there are gold messages.
    """

    recall_10: float
    recall_5: float
    ndcg_10: float


def score(gold: Collection[str], results: Sequence[Collection[str]]) -> QuestionScore:
    """Score an answer.

    Args:
        gold: Ids of the messages that hold the answer, at least one.
        results: The ids of the messages behind each result, best first.
    """
    wanted = set(gold)

    def recall(count: int) -> float:
        found = {message for result in results[:count] for message in result}
        return len(wanted & found) / len(wanted)

    gain = sum(
        1 / math.log2(place + 2)
        for place, result in enumerate(results[:TOP])
        if not wanted.isdisjoint(result)
    )
    ideal = sum(1 / math.log2(place + 2) for place in range(min(len(wanted), TOP)))
    return QuestionScore(recall(TOP), recall(FEW), min(1.0, gain / ideal))


class Covered(NamedTuple):
    """Of one question, each in 0..1.

    Attributes:
        said: The share of its gold messages that stand in the text, each by itself or by a fact
            that was learnt from it.
        summed_up: The same where the summary of a conversation also counts for all that was said
            in it.
    """

    said: float
    summed_up: float


@dataclass(frozen=True, slots=True)
class _EvidenceText:
    """Something that may stand in a text, and the messages that it counts for."""

    text: str
    messages: frozenset[str]

    @classmethod
    def of(cls, text: str, messages: Iterable[str]) -> _EvidenceText:
        return cls(clean(text)[:_SHOWN].rstrip(), frozenset(messages))


class GoldEvidence:
    """What the sessions of a data set say, by user.

    Args:
        sessions: Rows of the data set.
    """

    def __init__(self, sessions: Sequence[Mapping[str, Any]]) -> None:
        self._said: dict[str, list[_EvidenceText]] = {}
        self._summaries: dict[str, list[_EvidenceText]] = {}
        for session in sessions:
            said = self._said.setdefault(session["user_id"], [])
            ids = [message["id"] for message in session["messages"]]
            said.extend(
                _EvidenceText.of(message["content"], [message["id"]])
                for message in session["messages"]
            )
            said.extend(
                _EvidenceText.of(fact["content"], fact["evidence"]) for fact in session["facts"]
            )
            if session.get("summary"):
                self._summaries.setdefault(session["user_id"], []).append(
                    _EvidenceText.of(session["summary"], ids)
                )

    def covered(self, question: BenchmarkQuestion, text: str) -> Covered:
        """How much of a question's gold stands in `text`."""
        said = _standing(self._said.get(question.user, ()), question.gold, text)
        summed_up = said | _standing(
            self._summaries.get(question.user, ()), question.gold - said, text
        )
        return Covered(len(said) / len(question.gold), len(summed_up) / len(question.gold))


def _standing(known: Iterable[_EvidenceText], gold: frozenset[str], text: str) -> frozenset[str]:
    return frozenset().union(
        *(one.messages & gold for one in known if one.messages & gold and one.text in text)
    )
