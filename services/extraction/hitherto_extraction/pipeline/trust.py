"""Decides which origin may override which, and what is quarantined until a review.

There are two levels: the user and the operator above assistant, tool and document. The level comes
from the origin that was bound on writing; text can only lower the trust in it, never raise it.
"""

from __future__ import annotations

from collections.abc import Iterable

from hitherto_shared.text.instructions import overrides_instructions, reads_as_instruction

_HIGHER_ORIGINS = ("user", "operator")
_FALLING = ("operator", "user", "assistant", "tool", "document")
"""Origins from the most to the least trusted."""


def is_higher(origin: str) -> bool:
    """Whether an origin is of the higher level of trust."""
    return origin in _HIGHER_ORIGINS


def outranks(known_origin: str, origin: str) -> bool:
    """Whether `known_origin` is more trusted than `origin`."""
    return is_higher(known_origin) and not is_higher(origin)


def least_trusted(origins: Iterable[str]) -> str:
    """The least trusted of some origins."""
    return max(origins, key=_FALLING.index)


def raised(known: str, origin: str) -> str:
    """The origin of a memory in new words: the user's, if nobody but the user said them."""
    return origin if outranks(origin, known) else known


def is_suspect(texts: Iterable[str], *, trusted: bool) -> bool:
    """Whether one of the texts tries to instruct the assistant.

    The threshold is low for other people's words. The user's own words are suspect only if they
    override the assistant's instructions: how a user wants to be answered is a preference.
    """
    recognise = overrides_instructions if trusted else reads_as_instruction
    return any(recognise(text) for text in texts if text)
