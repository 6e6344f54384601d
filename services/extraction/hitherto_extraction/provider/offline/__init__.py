"""Memory extraction without a language model: transparent rules for English and Vietnamese.

The rules are tables (`english`, `vietnamese`); `engine` applies them, `conflicts` weighs the result
against what is known, `summary` writes the conversation summary, `evaluation` measures.
"""

from hitherto_extraction.provider.offline.extractor import LIMITS, MODEL, OfflineExtractor

__all__ = ["LIMITS", "MODEL", "OfflineExtractor"]
