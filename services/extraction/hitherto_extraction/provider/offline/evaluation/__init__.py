"""How well the offline rules do on sentences that were written before them."""

from hitherto_extraction.provider.offline.evaluation.figures import (
    EvaluationCounts,
    EvaluationFigures,
    load,
    measure,
    score,
)

__all__ = ["EvaluationCounts", "EvaluationFigures", "load", "measure", "score"]
