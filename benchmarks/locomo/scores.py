"""How good one answer is: recall and nDCG by the messages that hold the answer."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

TOP = 10
"""How many results are asked for."""
FEW = 5


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
