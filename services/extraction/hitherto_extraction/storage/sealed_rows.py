"""Opens sealed values of rows with their user's key, and seals the words of a memory.

The words of a memory are six columns. A sealed memory stores them in `sealed` and leaves the
columns themselves empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from hitherto_shared.encryption.failures import BrokenSeal, SealBroken
from hitherto_shared.encryption.needed import KeyNeeded
from hitherto_shared.encryption.places import memory_place
from hitherto_shared.encryption.sealed import UserKey

SENSITIVE_TYPES = ("personal",)
"""Types whose memories are always sensitive."""
SEALED = "sealed"
"""The embedding state of sealed memories only."""

_LABELS = ("tags", "keywords")
_OBJECTS = ("context", "metadata")
WORDS = ("content", "detail", *_LABELS, *_OBJECTS)


def opened(key: UserKey | None, sealed: bytes, place: Sequence[str]) -> dict[str, Any]:
    """The opened `sealed`.

    Raises:
        KeyNeeded: There is no key to open it.
        SealBroken: It was sealed with another key, or changed.
    """
    if key is None:
        raise KeyNeeded
    try:
        return key.open(sealed, place)
    except BrokenSeal:
        raise SealBroken from None


def opened_bytes(key: UserKey, sealed: bytes, place: Sequence[str]) -> bytes:
    """The opened bytes of `sealed`, such as a vector's.

    Raises:
        SealBroken: They were sealed with another key, or changed.
    """
    try:
        return key.open_bytes(sealed, place)
    except BrokenSeal:
        raise SealBroken from None


def seal_words(
    key: UserKey, memory_id: UUID, words: Mapping[str, Any], *, version: int
) -> dict[str, Any]:
    """The columns of a memory that is stored sealed.

    Args:
        key: The user's data key.
        memory_id: The memory's id, which its versions share.
        words: All of `WORDS`; other fields are ignored.
        version: The version of the memory with these words.

    Returns:
        The empty columns, `sealed`, and the columns that follow from it.
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
        "sealed": key.seal(values, memory_place(memory_id), version=version),
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


def open_words(key: UserKey | None, memory_id: UUID, sealed: bytes) -> dict[str, Any]:
    """The `WORDS` that `seal_words` was given.

    Raises:
        KeyNeeded: There is no key.
        BrokenSeal: It was changed, or belongs to another memory, user or key.
    """
    return opened(key, sealed, memory_place(memory_id))
