"""`hitherto-keys`: another key-encryption key, the same user keys; and how many open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from hitherto_shared.encryption.command import main
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.rewrapping import DAMAGED, GONE, OPENS, REWRAPPED, rewrap
from hitherto_shared.encryption.rows import PROFILE
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import LocalWrapper
from tests.unit.encryption.wrappers import CloudWrapper

OLD, NEW = b"o" * 32, b"n" * 32
HASH_KEY = b"h" * 32
PLACE = PROFILE.place(1)
USERS = [("t", f"user-{i}") for i in range(5)] + [("u", "user-0")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, kek in (("old", OLD), ("new", NEW)):
        (tmp_path / name).write_text(kek.hex())
        (tmp_path / name).chmod(0o600)
    monkeypatch.setenv("HITHERTO_USER_KEYS_DIR", str(tmp_path / "keys"))
    monkeypatch.setenv("HITHERTO_ENCRYPTION_KEY_FILE", str(tmp_path / "new"))
    return tmp_path


def keys(folder: Path, kek: bytes) -> UserKeys:
    return UserKeys(LocalWrapper(kek), KeyStore(folder / "keys"), HASH_KEY)


async def seal_all(folder: Path) -> list[bytes]:
    held = keys(folder, OLD)
    return [(await held.make(*user)).seal({"of": user[1]}, PLACE) for user in USERS]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_h3_after_rewrapping_the_new_key_opens_what_was_sealed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sealed = asyncio.run(seal_all(folder))
    assert run("check") == 1
    assert f"wrapped with another key, unchanged: {len(USERS)}" in capsys.readouterr().out
    assert run("rewrap", "--old-key-file", str(folder / "old")) == 0
    assert f"{REWRAPPED}: {len(USERS)}" in capsys.readouterr().out
    assert run("rewrap", "--old-key-file", str(folder / "old")) == 0
    assert f"{OPENS}: {len(USERS)}" in capsys.readouterr().out
    assert run("check") == 0
    told = capsys.readouterr().out
    assert f"{len(USERS)} keys" in told
    assert NEW.hex() not in told

    async def read() -> list[str]:
        held = keys(folder, NEW)
        return [
            (await held.open(*user)).open(text, PLACE)["of"]
            for user, text in zip(USERS, sealed, strict=True)
        ]

    assert asyncio.run(read()) == [user for _, user in USERS]


def test_h3_damaged_keys_are_told_and_hold_up_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(seal_all(folder))
    first = next((folder / "keys").rglob("*.json"))
    first.write_text("{}")
    assert run("rewrap", "--old-key-file", str(folder / "old")) == 1
    told = capsys.readouterr().out
    assert f"{DAMAGED}: 1" in told
    assert f"{REWRAPPED}: {len(USERS) - 1}" in told
    assert first.read_text() == "{}"


def test_h3_without_a_key_or_with_a_wrong_one_it_says_what_to_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("rewrap", "--old-key-file", str(folder / "missing")) == 2
    assert "cannot be read" in capsys.readouterr().err
    monkeypatch.delenv("HITHERTO_ENCRYPTION_KEY_FILE")
    assert run("check") == 2
    assert "HITHERTO_ENCRYPTION_KEY_FILE" in capsys.readouterr().err


def test_h3_from_a_wrapper_of_ones_own_also_one_that_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("check") == 0
    asyncio.run(UserKeys(CloudWrapper(), KeyStore(folder / "keys"), HASH_KEY).make("t", "a"))
    fails = f"{CloudWrapper.__module__}:out_of_reach"
    assert run("rewrap", "--old-key-wrapper", fails) == 1
    told = capsys.readouterr().err
    assert "key-management service cannot be used" in told
    assert "ConnectionError" in told
    with monkeypatch.context() as patch:
        patch.delenv("HITHERTO_ENCRYPTION_KEY_FILE")
        patch.setenv("HITHERTO_KEY_WRAPPER", fails)
        assert run("check") == 1
    assert "hunter2" not in told + capsys.readouterr().err
    assert run("rewrap", "--old-key-wrapper", f"{CloudWrapper.__module__}:cloud") == 0
    assert f"{REWRAPPED}: 1" in capsys.readouterr().out


async def test_h3_a_key_that_is_erased_meanwhile_does_not_come_back(folder: Path) -> None:
    held = keys(folder, OLD)
    await held.make("t", "a")
    store = KeyStore(folder / "keys")
    (hashed,) = store.hashes()

    class Meanwhile(LocalWrapper):
        async def wrap(self, key: bytes, bound_to: Sequence[str]) -> bytes:
            await held.erase("t", "a")
            return await super().wrap(key, bound_to)

    assert await rewrap(store, hashed, LocalWrapper(OLD), Meanwhile(NEW)) == GONE
    assert list(store.hashes()) == []
    assert [each.name for each in (folder / "keys").rglob("*.draft")] == []


async def test_h3_an_open_key_stays_open_while_it_is_wrapped_anew(folder: Path) -> None:
    held = keys(folder, OLD)
    made = await held.make("t", "a")
    store = KeyStore(folder / "keys")
    (hashed,) = store.hashes()
    assert await rewrap(store, hashed, LocalWrapper(OLD), LocalWrapper(NEW)) == REWRAPPED
    assert (await held.open("t", "a")).key_id == made.key_id
