"""Opens sealed values of rows with their user's key, and seals the words of a memory.

The words of a memory are six columns. A sealed memory stores them in `sealed` and leaves the
columns themselves empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from hitherto_shared.encryption.at_hand import key_at_hand
from hitherto_shared.encryption.failures import BrokenSeal, SealBroken
from hitherto_shared.encryption.places import memory_place
from hitherto_shared.models import Scope

SENSITIVE_TYPES = ("personal",)
"""Types whose memories are always sensitive."""
SEALED = "sealed"
"""The embedding state of sealed memories only."""

_LABELS = ("tags", "keywords")
_OBJECTS = ("context", "metadata")
WORDS = ("content", "detail", *_LABELS, *_OBJECTS)


def opened(scope: Scope, sealed: bytes, place: Sequence[str]) -> dict[str, Any]:
    """The opened `sealed` of a user.

    Raises:
        KeyNeeded: The user's key is not at hand.
        SealBroken: It was sealed with another key, or changed.
    """
    key = key_at_hand(scope)
    try:
        return key.open(sealed, place)
    except BrokenSeal:
        raise SealBroken from None


def opened_bytes(scope: Scope, sealed: bytes, place: Sequence[str]) -> bytes:
    """The opened bytes of `sealed`, such as a vector's.

    Raises:
        KeyNeeded: The user's key is not at hand.
        SealBroken: They were sealed with another key, or changed.
    """
    key = key_at_hand(scope)
    try:
        return key.open_bytes(sealed, place)
    except BrokenSeal:
        raise SealBroken from None


def seal_words(
    scope: Scope, memory_id: UUID, words: Mapping[str, Any], *, version: int
) -> dict[str, Any]:
    """The columns of a memory that is stored sealed.

    Args:
        scope: The user.
        memory_id: The memory's id, which its versions share.
        words: All of `WORDS`; other fields are ignored.
        version: The version of the memory with these words.

    Returns:
        The empty columns, `sealed`, and the columns that follow from it.

    Raises:
        KeyNeeded: The user's key is not at hand.
    """
    values = {name: words[name] for name in ("content", "detail")}
    values |= {name: list(words[name]) for name in _LABELS}
    values |= {name: dict(words[name]) for name in _OBJECTS}
    return {
        "content": "",
        "detail": "",
        **{name: [] for name in _LABELS},
        **{name: Jsonb({}) for name in _OBJECTS},
        "questions": [],
        "sealed": key_at_hand(scope).seal(values, memory_place(memory_id), version=version),
        "sensitive": True,
        "lexical_length": 0,
        "embedding_state": SEALED,
    }


def clear_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a memory that is stored in clear."""
    return {
        **{name: words[name] for name in ("content", "detail")},
        **{name: list(words[name]) for name in _LABELS},
        **{name: Jsonb(dict(words[name])) for name in _OBJECTS},
        "sealed": None,
    }


def open_words(scope: Scope, memory_id: UUID, sealed: bytes) -> dict[str, Any]:
    """The `WORDS` that `seal_words` was given.

    Raises:
        KeyNeeded: The user's key is not at hand.
        SealBroken: It was changed, or belongs to another memory, user or key.
    """
    return opened(scope, sealed, memory_place(memory_id))
