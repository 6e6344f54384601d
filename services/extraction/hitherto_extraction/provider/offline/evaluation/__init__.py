"""How well the offline rules do on sentences that were written before them."""

from hitherto_extraction.provider.offline.evaluation.figures import (
    Figures,
    Score,
    load,
    measure,
    score,
)

__all__ = ["Figures", "Score", "load", "measure", "score"]
