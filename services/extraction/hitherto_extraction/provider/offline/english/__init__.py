"""English: `grammar` holds the language, the other modules its table of rules by theme."""

from hitherto_extraction.provider.offline.english.grammar import ENGLISH

__all__ = ["ENGLISH"]
