"""Memory extraction without a language model: transparent rules for English and Vietnamese.

The rules are tables (`english.toml`, `vietnamese.toml`). `reading` applies them, `weighing`
compares the result with what is known, `summary` writes the conversation summary, and `evaluation`
measures.
"""

from hitherto_extraction.provider.offline.extractor import LIMITS, MODEL, OfflineExtractor

__all__ = ["LIMITS", "MODEL", "OfflineExtractor"]
