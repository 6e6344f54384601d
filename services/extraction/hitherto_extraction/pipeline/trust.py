"""Decides which origin may override which, and what is quarantined until a review.

There are two levels: the user and the operator above assistant, tool and document. The level comes
from the origin that was bound on writing; text can only lower the trust in it, never raise it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hitherto_shared.text.instructions import overrides_instructions, reads_as_instruction

_HIGHER_ORIGINS = ("user", "operator")
_FALLING = ("operator", "user", "assistant", "tool", "document")
"""Origins from the most to the least trusted."""
_SHORT_KEY = 16
"""Minimum characters of a key that could hold an instruction."""


def is_higher(origin: str) -> bool:
    """Whether an origin is of the higher level of trust."""
    return origin in _HIGHER_ORIGINS


def outranks(known_origin: str, origin: str) -> bool:
    """Whether `known_origin` is more trusted than `origin`."""
    return is_higher(known_origin) and not is_higher(origin)


def least_trusted(origins: Iterable[str]) -> str:
    """The least trusted of some origins."""
    return max(origins, key=_FALLING.index)


def is_suspect(texts: Iterable[str], *, trusted: bool) -> bool:
    """Whether one of the texts tries to instruct the assistant.

    The threshold is low for other people's words. The user's own words are suspect only if they
    override the assistant's instructions: how a user wants to be answered is a preference.
    """
    recognise = overrides_instructions if trusted else reads_as_instruction
    return any(recognise(text) for text in texts if text)


def without_overrides(value: Any) -> tuple[Any, int]:
    """Free-form JSON without texts that override instructions, and the number of those.

    It is for values without quarantine: profiles and summaries.
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
