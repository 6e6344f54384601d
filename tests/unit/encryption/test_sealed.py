"""Sealed values (faults.md section 3, encryption): they open in their own row and nowhere else."""

from __future__ import annotations

import os
from uuid import uuid4

import pytest

from hitherto_shared.encryption import rows
from hitherto_shared.encryption.failures import DecryptionFailed
from hitherto_shared.encryption.user_key import OVERHEAD_BYTES, UserKey
from tests.refusing import refusing

KEY = b"k" * 32
VALUES = {
    "content": "Kanari: tôi bị tiểu đường 🩺 السكري",
    "tags": ["sức khỏe"],
    "n": None,
    "x": 1.5,
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
        rows.MEMORY.place(uuid4()),
        rows.VECTOR.place(MEMORY, ""),
        rows.MESSAGE.place("c", str(MEMORY)),
        rows.SUMMARY.place(str(MEMORY)),
        rows.PROFILE.place(1),
        rows.REPLY.place(MEMORY, 1),
        ("memory",),
        (f"memory{MEMORY}",),
        (),
    ]:
        with pytest.raises(DecryptionFailed), refusing(other):
            key().open(key().seal(VALUES, PLACE), other)


def test_h3_places_cannot_be_run_together() -> None:
    sealed = key().seal(VALUES, rows.MESSAGE.place("a", "b,c"))
    with pytest.raises(DecryptionFailed):
        key().open(sealed, rows.MESSAGE.place("a,b", "c"))


def test_h3_another_user_or_key_does_not_open_it() -> None:
    for other in [key(user="v"), key(tenant="x"), key(secret=b"l" * 32), key(tenant="u", user="t")]:
        with pytest.raises(DecryptionFailed), refusing(other):
            other.open(key().seal(VALUES, PLACE), PLACE)


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
