"""Vietnamese: `grammar` holds the language, the other modules its table of rules by theme."""

from hitherto_extraction.provider.offline.vietnamese.grammar import VIETNAMESE

__all__ = ["VIETNAMESE"]
