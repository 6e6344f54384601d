"""Opens rows for the functions that read them, and decides for those that write whether to seal.

`encryption.rows` declares what a kind of row seals: a sealed row holds its words in `sealed`, and
empty columns in their place. Nothing else decides what is sealed: who writes rows asks here for the
key, and stores them in clear if there is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from hitherto_extraction.storage import users
from hitherto_shared.database.arrays import Uuids
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.at_hand import KeyNeeded, key_at_hand
from hitherto_shared.encryption.failures import DecryptionFailed, SealBroken
from hitherto_shared.encryption.rows import MEMORY, SealedRow
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.models import Scope

SENSITIVE_TYPES = ("personal",)
"""Types whose memories are always sensitive."""
SEALED = "sealed"
"""The embedding state of sealed memories only."""
WORDS = tuple(MEMORY.columns)
"""The columns that a sealed memory seals."""

_SEALED_AMONG = """
SELECT memory_id
FROM memories
WHERE tenant_id = %(tenant_id)s AND user_id = %(user_id)s
  AND memory_id = ANY(%(memory_ids)s) AND sealed IS NOT NULL
"""


def is_sensitive(kind: str, marked: bool) -> bool:
    """Whether encryption seals a memory: by its type, or if it is marked."""
    return marked or kind in SENSITIVE_TYPES


async def sealing_key(user: UserRows, *, stays_sealed: bool = False) -> UserKey | None:
    """The key with which to seal what is written about a user now; None: it is stored in clear.

    Everything but memories is sealed whole: for those, see `key_of_memory`. What was sealed before,
    or quotes sealed text, `stays_sealed` although the user may have turned encryption off.

    Raises:
        KeyNeeded: The key is not at hand, or encryption was turned on with another one since: the
            user may have been erased in between, and nothing can open what an old key seals.
    """
    encryption = await users.encryption_of(user)
    if not encryption.on:
        return key_at_hand(user.scope) if stays_sealed else None
    key = key_at_hand(user.scope)
    if key.key_id != encryption.key_id:
        raise KeyNeeded
    return key


async def key_of_memory(
    user: UserRows, kind: str, marked: bool, *, stays_sealed: bool = False
) -> UserKey | None:
    """`sealing_key` for a memory of this type, which is sealed only if it is sensitive."""
    if not is_sensitive(kind, marked):
        return None
    return await sealing_key(user, stays_sealed=stays_sealed)


async def sealed_among(user: UserRows, memory_ids: Collection[UUID]) -> set[UUID]:
    """Those of the memories that are stored sealed.

    What is told beside them is sealed, or not stored at all.
    """
    if not memory_ids or (await users.encryption_of(user)).key_id is None:
        return set()
    return set(await user.fetch_values(_SEALED_AMONG, memory_ids=Uuids(memory_ids)))


def opened(scope: Scope, kind: SealedRow, sealed: bytes, *ids: object) -> dict[str, Any]:
    """The columns of the row with these ids, by name.

    Raises:
        KeyNeeded: The user's key is not at hand.
        SealBroken: They were sealed with another key, or changed.
    """
    key = key_at_hand(scope)
    try:
        return kind.open(key, sealed, *ids)
    except DecryptionFailed:
        raise SealBroken from None


def opened_bytes(scope: Scope, kind: SealedRow, sealed: bytes, *ids: object) -> bytes:
    """`opened` for a row that seals bytes, such as a vector's."""
    key = key_at_hand(scope)
    try:
        return key.open_bytes(sealed, kind.place(*ids))
    except DecryptionFailed:
        raise SealBroken from None


def stored(key: UserKey | None, kind: SealedRow, row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that may be sealed, as a statement's parameters, and `sealed`.

    `row` holds the columns in clear, the row's ids, and the version under which it is sealed.
    Without a key it is stored in clear.
    """
    columns = {name: row[name] for name in kind.columns} if key is None else kind.columns
    return {
        **{name: _parameter(value) for name, value in columns.items()},
        "sealed": None if key is None else kind.seal(key, row),
    }


def stored_memory(key: UserKey | None, row: Mapping[str, Any]) -> dict[str, Any]:
    """`stored` for a memory, with the columns that follow from its being sealed."""
    columns = stored(key, MEMORY, row)
    if key is not None:
        columns |= {
            "questions": [],
            "sensitive": True,
            "lexical_length": 0,
            "embedding_state": SEALED,
        }
    return columns


def _parameter(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Jsonb(dict(value))
    return value if isinstance(value, str) else list(value)
