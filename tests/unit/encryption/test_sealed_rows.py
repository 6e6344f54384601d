"""Every kind of sealed row opens with its own ids to what was sealed, and with no others (H3)."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hitherto_shared.encryption.failures import DecryptionFailed
from hitherto_shared.encryption.rows import BY_TABLE, SealedRow
from hitherto_shared.encryption.user_key import UserKey, version_of
from tests.refusing import refusing


def in_clear(kind: SealedRow) -> dict[str, Any]:
    """A row with a value of its own in every column that is sealed."""
    full: dict[type, Any] = {str: "zz", list: ["zz"], dict: {"zz": [1, "ž"]}}
    columns = {name: full[type(empty)] for name, empty in kind.columns.items()}
    return {**columns, **{name: f"id of {name}" for name in kind.ids}, "outcome": "resolved"}


def test_h3_a_row_opens_to_its_columns_and_to_no_others() -> None:
    for table in BY_TABLE:
        kind = BY_TABLE[table]
        key = UserKey(os.urandom(32), "t", "ana", "k")
        row = in_clear(kind)
        if kind.version:
            row[kind.version] = 3
        sealed = kind.seal(key, row)
        ids = [row[name] for name in kind.ids]
        assert kind.open(key, sealed, *ids) == {name: row[name] for name in kind.columns}, table
        assert version_of(sealed) == (3 if kind.version else 0), table
        with pytest.raises(DecryptionFailed), refusing(table):
            kind.open(key, sealed, *ids[:-1], "another")
        with pytest.raises(DecryptionFailed), refusing(table):
            kind.open(UserKey(os.urandom(32), "t", "ana", "k"), sealed, *ids)


def test_h3_only_the_present_and_earlier_versions_of_one_item_share_a_place() -> None:
    places = {table: kind.place("1") for table, kind in BY_TABLE.items()}
    assert places.pop("memory_versions") == places["memories"]
    assert places.pop("profile_versions") == places["profiles"]
    assert len(set(places.values())) == len(places)
