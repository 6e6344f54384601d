"""Sealed values (faults.md section 3, encryption): they open in their own row and nowhere else."""

from __future__ import annotations

import os
from typing import Any
from uuid import uuid4

import pytest

from hitherto_shared.encryption import rows
from hitherto_shared.encryption.failures import DecryptionFailed
from hitherto_shared.encryption.rows import BY_TABLE, SealedRow
from hitherto_shared.encryption.user_key import OVERHEAD_BYTES, UserKey, version_of
from tests.refusing import refusing

KEY = b"k" * 32
VALUES = {
    "content": "Kanari: tôi bị tiểu đường 🩺 السكري",
    "tags": ["sức khỏe"],
    "n": None,
    "x": 1.5,
    "half": "\ud83d",
}
MEMORY = uuid4()
PLACE = rows.MEMORY.place(MEMORY)


def key(secret: bytes = KEY, tenant: str = "t", user: str = "u") -> UserKey:
    return UserKey(secret, tenant, user, "id")


def test_h3_a_value_opens_where_it_was_sealed() -> None:
    sealed = key().seal(VALUES, PLACE)
    assert key().open(sealed, rows.MEMORY.place(str(MEMORY))) == VALUES
    assert key().open(memoryview(sealed), PLACE) == VALUES  # type: ignore[arg-type]
    assert sealed != key().seal(VALUES, PLACE)


def test_h3_nothing_of_the_value_shows() -> None:
    sealed = key().seal(VALUES, PLACE)
    for word in ("Kanari", "tiểu đường", "content", "🩺"):
        assert word.encode() not in sealed
    assert KEY not in sealed
    assert "k" * 8 not in repr(key())


def test_h3_bytes_are_sealed_as_they_are() -> None:
    vector = os.urandom(3072)
    place = rows.VECTOR.place(MEMORY, "model")
    sealed = key().seal_bytes(vector, place)
    assert len(sealed) == len(vector) + OVERHEAD_BYTES
    assert key().open_bytes(sealed, place) == vector
    with pytest.raises(DecryptionFailed):
        key().open_bytes(sealed, rows.VECTOR.place(MEMORY, "another"))


def test_h3_another_row_does_not_open_it() -> None:
    for other in [
        rows.MEMORY.place(uuid4()), rows.VECTOR.place(MEMORY, ""),
        rows.MESSAGE.place("c", str(MEMORY)), rows.SUMMARY.place(str(MEMORY)),
        rows.PROFILE.place(1), rows.REPLY.place(MEMORY, 1), ("memory",), (f"memory{MEMORY}",), (),
    ]:  # fmt: skip
        with pytest.raises(DecryptionFailed), refusing(other):
            key().open(key().seal(VALUES, PLACE), other)


def test_h3_places_cannot_be_run_together() -> None:
    sealed = key().seal(VALUES, rows.MESSAGE.place("a", "b,c"))
    with pytest.raises(DecryptionFailed):
        key().open(sealed, rows.MESSAGE.place("a,b", "c"))


def test_h3_another_user_or_key_does_not_open_it() -> None:
    for other in [key(user="v"), key(tenant="x"), key(secret=b"l" * 32), key(tenant="u", user="t")]:
        with pytest.raises(DecryptionFailed) as caught, refusing(other):
            other.open(key().seal(VALUES, PLACE), PLACE)
        assert "Kanari" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_h3_every_changed_byte_breaks_it() -> None:
    sealed = key().seal({"content": "tea"}, PLACE)
    for i in range(len(sealed)):
        changed = sealed[:i] + bytes([sealed[i] ^ 1]) + sealed[i + 1 :]
        with pytest.raises(DecryptionFailed):
            key().open(changed, PLACE)
    for cut in range(len(sealed)):
        with pytest.raises(DecryptionFailed):
            key().open(sealed[:cut], PLACE)
    with pytest.raises(DecryptionFailed):
        key().open(sealed + b"\0", PLACE)


# Every kind of sealed row opens with its own ids to what was sealed, and with no others (H3).


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
