"""Opens rows for the functions that read them, and seals rows for those that write.

What a kind of row seals is declared in `encryption.rows`; the key of the row's user is at hand
(`encryption.at_hand`). A sealed row holds its words in `sealed` and empty columns in their place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from psycopg.types.json import Jsonb

from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.at_hand import key_at_hand
from hitherto_shared.encryption.failures import BrokenSeal, SealBroken
from hitherto_shared.encryption.rows import MEMORY, SealedRow
from hitherto_shared.models import Scope

SENSITIVE_TYPES = ("personal",)
"""Types whose memories are always sensitive."""
SEALED = "sealed"
"""The embedding state of sealed memories only."""
WORDS = tuple(MEMORY.columns)
"""The columns that a sealed memory seals."""
WORDS_OF_HISTORY = (*WORDS, "entities", "doubt")
"""The fields of a history entry in the user's words."""

Rows = list[dict[str, Any]]


def opened(scope: Scope, kind: SealedRow, sealed: bytes, *ids: object) -> dict[str, Any]:
    """The columns of the row with these ids, by name.

    Raises:
        KeyNeeded: The user's key is not at hand.
        SealBroken: They were sealed with another key, or changed.
    """
    key = key_at_hand(scope)
    try:
        return kind.open(key, sealed, *ids)
    except BrokenSeal:
        raise SealBroken from None


def opened_bytes(scope: Scope, kind: SealedRow, sealed: bytes, *ids: object) -> bytes:
    """The opened bytes of a row, such as a vector's.

    Raises:
        KeyNeeded: The user's key is not at hand.
        SealBroken: They were sealed with another key, or changed.
    """
    key = key_at_hand(scope)
    try:
        return key.open_bytes(sealed, kind.place(*ids))
    except BrokenSeal:
        raise SealBroken from None


def stored(
    scope: Scope, kind: SealedRow, row: Mapping[str, Any], *, sealed: bool
) -> dict[str, Any]:
    """The columns that may be sealed, as a statement's parameters, and `sealed`.

    `row` holds the columns in clear, the row's ids, and the version under which it is sealed.

    Raises:
        KeyNeeded: The row is to be sealed, and the user's key is not at hand.
    """
    columns = kind.columns if sealed else {name: row[name] for name in kind.columns}
    return {
        **{name: _parameter(value) for name, value in columns.items()},
        "sealed": kind.seal(key_at_hand(scope), row) if sealed else None,
    }


def stored_memory(scope: Scope, row: Mapping[str, Any], *, sealed: bool) -> dict[str, Any]:
    """`stored` for a memory, with the columns that follow from its being sealed.

    Raises:
        KeyNeeded: The user's key is not at hand.
    """
    columns = stored(scope, MEMORY, row, sealed=sealed)
    if sealed:
        columns |= {
            "questions": [],
            "sensitive": True,
            "lexical_length": 0,
            "embedding_state": SEALED,
        }
    return columns


def without_words(fields: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the history of a sealed memory may hold of its fields."""
    if fields is None:
        return None
    return {name: value for name, value in fields.items() if name not in WORDS_OF_HISTORY}


async def seal_rows(
    user: UserRows,
    kind: SealedRow,
    find: str,
    seal: str,
    *,
    before: Callable[[Rows], Awaitable[object]] | None = None,
    **values: Any,
) -> Rows:
    """Seal rows that are stored in clear; returns them, as they were found.

    Args:
        user: With the role hitherto_removal, in a transaction that holds the user's row.
        kind: The kind of row.
        find: Finds rows: their ids, the version to seal under, and the columns in clear.
        seal: Stores `sealed` in a row in the place of its columns.
        before: Is given the rows while they are in clear.
        **values: Further parameters of `find`.

    Raises:
        KeyNeeded: The user's key is not at hand.
    """
    key = key_at_hand(user.scope)
    rows = (await user.execute(find, **values)).dicts()
    if before is not None:
        await before(rows)
    await user.later_for_each(seal, [{**row, "sealed": kind.seal(key, row)} for row in rows])
    return rows


def _parameter(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Jsonb(dict(value))
    return value if isinstance(value, str) else list(value)
