"""Tells a memory from the filling of a form: a model that has nothing to say may fill it in.

No list of words decides: a placeholder is a content without a word, in brackets as a whole, a
single word, or copied from the instructions, while the conversation holds none of its words.
"""

from __future__ import annotations

import re
from functools import lru_cache

_BRACKETS = {"<": ">", "{": "}", "[": "]"}
_WORD = re.compile(r"[^\W_]+")
_SHORT = 3
"""Letters up to which a word is found in any conversation."""
_FEWEST_COPIED = 2
"""Words from which a content is recognised as a copy."""
_SPACED = 0x0E00
"""First character of the scripts that may write without spaces."""


def is_placeholder(content: str, instructions: str, said: str) -> bool:
    """Whether the content of a new memory is a placeholder."""
    text = " ".join(content.split()).strip(" .…'\"“”")
    words = _WORD.findall(text)
    if not words or _BRACKETS.get(text[0]) == text[-1]:
        return True
    conversation = said.casefold()
    if " " not in text:
        spaced = max(text) < chr(_SPACED)
        return spaced and text.casefold() not in conversation
    return (
        len(words) >= _FEWEST_COPIED
        and not any(word.casefold() in conversation for word in words if len(word) > _SHORT)
        and text.casefold() in _in_one_line(instructions)
    )


@lru_cache(maxsize=4)
def _in_one_line(instructions: str) -> str:
    # Long, and the same for every conversation.
    return " ".join(instructions.split()).casefold()
