"""What guards have read of a text is forgotten soon: it may be sealed or erased by then."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hitherto_extraction
from hitherto_extraction.consolidation import faithfulness
from hitherto_extraction.pipeline import dedupe
from hitherto_extraction.pipeline.guards import relevance, slots, support
from hitherto_extraction.pipeline.guards.tokens import forget_readings

READERS: list[Callable[[str], object]] = [
    slots.merged_words,
    dedupe._plain,
    relevance._read,
    support._reading,
    faithfulness._read,
]


@pytest.mark.parametrize("read", READERS)
def test_a_text_is_read_once_and_then_forgotten(read: Callable[[str], object]) -> None:
    text = " ".join(["The user keeps", read.__module__, "bees in Porto."])
    before = sys.getrefcount(text)
    assert read(text) is read(text)
    assert sys.getrefcount(text) > before
    forget_readings()
    assert sys.getrefcount(text) == before


def test_no_other_cache_keeps_texts() -> None:
    """What is kept besides are characters, and the rules that come along."""
    folder = Path(hitherto_extraction.__file__).parent
    caches = {
        f"{file.relative_to(folder)}: {name}"
        for file in folder.rglob("*.py")
        for name in re.findall(
            r"^@(?:functools\.)?(?:lru_)?cache\b.*\n(?:@.*\n)*def (\w+)",
            file.read_text("utf-8"),
            re.M,
        )
    }
    assert caches <= {
        "pipeline/guards/tokens.py: _character_kind",
        *(cache for cache in caches if cache.startswith("provider/offline/")),
    }
