"""Leaves out of a message what we told: a block of memory is no evidence.

An assistant's backend, a tool or a person may send a prompt block back as part of a message. What
it says was known before, and may be stale by now.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"<<<(end )?hitherto:memory ([0-9A-Za-z]{8,64})(?:: [^<>\n]{0,200})?>>>")


def without_blocks(text: str) -> str:
    """A text without the blocks between fence lines of ours, whoever put them there.

    A block ends at the fence with its id; one without such a fence was cut off, and ends with the
    text.
    """
    if "hitherto:memory" not in text:
        return text
    kept, at, inside = [], 0, ""
    for fence in _FENCE.finditer(text):
        closes, name = fence[1], fence[2]
        if not inside and not closes:
            kept.append(text[at : fence.start()])
            inside = name
        elif closes and name == inside:
            at, inside = fence.end(), ""
    if not inside:
        kept.append(text[at:])
    return "".join(kept)
