"""The folder of wrapped keys: a file is replaced only while it holds what was read (H3)."""

from __future__ import annotations

from pathlib import Path

from hitherto_shared.encryption.key_store import KeyStore, WrappedKey

ANA = "a" * 64


def wrapped(name: str, *, by: str = "old") -> WrappedKey:
    return WrappedKey("a", name, by, f"{name} by {by}".encode())


def held(store: KeyStore) -> WrappedKey:
    found = store.read(ANA)
    assert found is not None
    return found[1]


def test_only_the_key_that_was_read_is_replaced(tmp_path: Path) -> None:
    """The user was erased, and came back, while the first key was wrapped anew."""
    store = KeyStore(tmp_path)
    first, second = wrapped("first"), wrapped("second")
    assert store.create(ANA, first)
    assert not store.create(ANA, second)
    assert held(store) == first
    assert store.erase(ANA)
    assert not store.replace(ANA, first, wrapped("first", by="new"))
    assert store.read(ANA) is None
    assert store.create(ANA, second)
    assert not store.replace(ANA, first, wrapped("first", by="new"))
    assert held(store) == second
    assert store.replace(ANA, second, wrapped("second", by="new"))
    assert held(store) == wrapped("second", by="new")


def test_some_keys_are_from_all_over_the_folder(tmp_path: Path) -> None:
    """An interrupted rewrapping has come as far as it came by the order of names."""
    store = KeyStore(tmp_path / "keys")
    assert store.some_hashes(4) == []
    hashes = [f"{number:02x}{number:02x}{'0' * 60}" for number in range(40)]
    for hashed in hashes:
        store.create(hashed, wrapped("k"))
    assert len(store.some_hashes(4)) == 4
    assert len({hashed for _ in range(100) for hashed in store.some_hashes(4)}) > 30
    assert sorted(store.some_hashes(100)) == hashes
