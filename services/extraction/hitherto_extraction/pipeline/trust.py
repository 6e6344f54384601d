"""Who may be believed, against whom, and what is kept out of prompts until somebody reviews it.

Two levels: the user and the operator above assistant, tool and document. The level comes from the
origin that was bound at writing; text can only lower what it is trusted with, never raise it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hitherto_extraction.pipeline.merge import HIGHER_ORIGINS
from hitherto_shared.text.instructions import (
    overrides_instructions,
    reads_as_instruction,
)

_SHORT_KEY = 16
"""Characters below which a key says nothing that an assistant could follow."""


def is_higher(origin: str) -> bool:
    """Whether an origin is of the higher level."""
    return origin in HIGHER_ORIGINS


def outranks(known_origin: str, origin: str) -> bool:
    """Whether what was said by `known_origin` stands above the word of `origin`."""
    return is_higher(known_origin) and not is_higher(origin)


def is_suspect(texts: Iterable[str], *, trusted: bool) -> bool:
    """Whether one of the texts tries to instruct the assistant.

    The words of others are suspected readily, the user's own only where they set the assistant's
    instructions aside: how a user wants to be answered is a preference.
    """
    recognise = overrides_instructions if trusted else reads_as_instruction
    return any(recognise(text) for text in texts if text)


def without_overrides(value: Any) -> tuple[Any, int]:
    """Free JSON without the texts that set instructions aside, and how many those were.

    For what has no quarantine of its own: profiles and summaries.
    """
    if isinstance(value, str):
        return (None, 1) if overrides_instructions(value) else (value, 0)
    if isinstance(value, Mapping):
        pairs = {
            key: without_overrides(item)
            for key, item in value.items()
            if len(key) < _SHORT_KEY or not overrides_instructions(key)
        }
        dropped = len(value) - len(pairs) + sum(count for _, count in pairs.values())
        kept = {key: item for key, (item, count) in pairs.items() if item is not None or not count}
        return kept, dropped
    if isinstance(value, list | tuple):
        items = [without_overrides(item) for item in value]
        found = [item for item, count in items if item is not None or not count]
        return found, sum(count for _, count in items)
    return value, 0
