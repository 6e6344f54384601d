"""What is searched, by which rankings, and how good an answer is.

The rankings are the default one, the default without each of its components, and others.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from hitherto_client.results import SearchResult
from hitherto_client.words import SearchScope
from hitherto_retrieval.search.ranking.balanced import Balanced
from hitherto_retrieval.search.ranking.weighted import Weighted

AT_ONCE = 4
TOP = 10
"""How many results are asked for."""
FEW = 5
# The conversations end in 2023: a month without a year is meant to lie in them.
REFERENCE = datetime(2024, 1, 31, tzinfo=UTC)
FACTS, MESSAGES, BOTH = "facts", "messages", "both"
CORPORA: Mapping[str, Sequence[SearchScope]] = {
    FACTS: ("memories",),
    MESSAGES: ("messages",),
    BOTH: ("memories", "messages"),
}
"""What is searched, by the scopes of SearchMemories."""
ABLATED = (FACTS, MESSAGES)
"""Where the ranking is taken apart, and held against others."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A ranking with weights that replace its own."""

    name: str
    ranking: str = Balanced.name
    weights: Mapping[str, float] = field(default_factory=dict)


def _alone(component: str) -> Variant:
    weights = {name: float(name == component) for name in Balanced.weights}
    called = "cosine" if component == "semantic" else component
    return Variant(f"{called} alone", weights=weights)


BALANCED = Variant(Balanced.name)
COSINE, KEYWORD = _alone("semantic"), _alone("keyword")
OTHERS = (COSINE, KEYWORD, Variant(Weighted.name, Weighted.name))
ABLATIONS = tuple(Variant(f"without {name}", weights={name: 0.0}) for name in Balanced.weights)
"""The default ranking without each of its components, whichever it has."""


class QuestionScore(NamedTuple):
    """Of one question, each in 0..1."""

    recall_10: float  # the share of its gold messages that are behind the first ten results
    recall_5: float  # the same of the first five
    # Whether results with a gold message behind them stand in front. It counts up to as many of
    # them as there are gold messages.
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


def behind(result: SearchResult) -> Sequence[str]:
    """Ids of the messages behind a result: itself, or those a memory came from."""
    if result.message is not None:
        return [result.message.id]
    return result.memory.source_message_ids if result.memory is not None else ()
