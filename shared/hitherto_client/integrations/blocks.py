"""Blocks of memory in other texts, found by their fences."""

from __future__ import annotations

import re

_BEGIN = re.compile(r"<<<hitherto:memory ([0-9A-Za-z]{8,64}): ")


def joined(instructions: str, block: str) -> str:
    """The instructions without any earlier block, and the block after them."""
    bare = without_blocks(instructions).rstrip()
    return f"{bare}\n\n{block}" if bare else block


def without_blocks(text: str) -> str:
    """The text without the blocks of memory in it, such as a reply's echo of its instructions."""
    kept: list[str] = []
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        end = f"<<<end hitherto:memory {begin[1]}>>>"
        found = text.find(end, begin.end())
        if found < 0:
            break
        kept.append(text[at : begin.start()])
        at = found + len(end)
    return "".join(kept) + text[at:]
