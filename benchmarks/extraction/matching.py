"""Which memory meets which expectation, and which one is forbidden."""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmarks.extraction.nearness import Nearness
from benchmarks.extraction.rows import Expectation, Forbidden
from benchmarks.extraction.wording import contains_all, is_hard, missing, plain


def meets(text: str, wanted: Expectation, nearness: Nearness) -> bool:
    """Whether a text says what is expected.

    It does if it has every word of `contains`. Where an embedder finds it near to `says`, words
    that are neither names nor numbers may be replaced by others.
    """
    lacks = missing(text, wanted.contains)
    if not lacks:
        return True
    if any(is_hard(term) for term in lacks):
        return False
    return bool(wanted.says) and nearness.paraphrase(text, wanted.says)


def violated(text: str, rules: Sequence[Forbidden]) -> list[int]:
    """The positions of the rules that forbid a text."""
    return [number for number, rule in enumerate(rules) if _forbids(rule, text)]


def _forbids(rule: Forbidden, text: str) -> bool:
    folded = plain(text)
    if any(plain(word) in folded for word in rule.unless):
        return False
    if rule.pattern:
        return re.search(rule.pattern, text, re.IGNORECASE) is not None
    return contains_all(text, rule.contains)
