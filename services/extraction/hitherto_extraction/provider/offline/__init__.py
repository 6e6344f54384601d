"""Memory extraction without a language model: it shows the loop, in English and Vietnamese.

The rules are tables (`english.toml`, `vietnamese.toml`; what a rule means, in `meanings.toml`).
`reading` applies them to a message, `extractor` compares the result with what is known and answers
as a language model would, `summary` and `consolidation` do the rest of a model's work.
"""

from hitherto_extraction.provider.offline.extractor import LIMITS, MODEL, OfflineExtractor

__all__ = ["LIMITS", "MODEL", "OfflineExtractor"]
