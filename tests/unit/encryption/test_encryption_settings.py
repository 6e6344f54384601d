"""Settings of encryption: one key-encryption key at most, and mistakes are told at the start."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from pydantic import ValidationError

from hitherto_shared.config import SharedSettings, describe
from hitherto_shared.encryption.wrapping import MAX_ID, LocalWrapper
from hitherto_shared.key_files import load_user_keys, user_keys_dir
from tests.refusing import refusing
from tests.unit.encryption.wrappers import CloudWrapper

DIGITS = "0f" * 32
HOOK = f"{CloudWrapper.__module__}:cloud"


def test_h3_the_key_from_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kek"
    file.write_text(f"{DIGITS}\n")
    file.chmod(0o600)
    monkeypatch.setenv("HITHERTO_USER_KEYS_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("HITHERTO_ENCRYPTION_KEY_FILE", str(file))
    settings = SharedSettings()
    assert user_keys_dir(settings) == tmp_path / "elsewhere"
    from_file = settings.load_key_wrapper()
    monkeypatch.delenv("HITHERTO_ENCRYPTION_KEY_FILE")
    monkeypatch.setenv("HITHERTO_ENCRYPTION_KEY", DIGITS)
    settings = SharedSettings()
    from_environment = settings.load_key_wrapper()
    assert from_file is not None
    assert from_environment is not None
    assert from_file.id == from_environment.id == LocalWrapper(bytes.fromhex(DIGITS)).id
    assert DIGITS not in repr(settings)
    assert load_user_keys(settings, b"h" * 32).configured


def test_h3_off_by_default_and_a_wrapper_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SharedSettings(data_dir=tmp_path)
    assert settings.load_key_wrapper() is None
    assert not load_user_keys(settings, b"h" * 32).configured
    assert user_keys_dir(settings) == tmp_path / "user-keys"
    assert list(tmp_path.iterdir()) == []
    wrapper = SharedSettings(data_dir=tmp_path, key_wrapper=HOOK).load_key_wrapper()
    assert wrapper is not None
    assert wrapper.id == CloudWrapper.id
    for length, usable in ((MAX_ID, True), (MAX_ID + 1, False)):
        monkeypatch.setattr(CloudWrapper, "id", "x" * length)
        with nullcontext() if usable else pytest.raises(ValueError, match="must return an object"):
            SharedSettings(data_dir=tmp_path, key_wrapper=HOOK).load_key_wrapper()


def test_h3_two_keys_are_one_too_many(tmp_path: Path) -> None:
    for given in (
        {"HITHERTO_ENCRYPTION_KEY": DIGITS, "HITHERTO_KEY_WRAPPER": HOOK},
        {"HITHERTO_ENCRYPTION_KEY": DIGITS, "HITHERTO_ENCRYPTION_KEY_FILE": str(tmp_path)},
        {"HITHERTO_KEY_WRAPPER": HOOK, "HITHERTO_ENCRYPTION_KEY_FILE": str(tmp_path)},
    ):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in given.items():
                patch.setenv(name, value)
            with pytest.raises(ValidationError) as caught:
                SharedSettings()
        told = describe(caught.value)
        assert "set one of HITHERTO_ENCRYPTION_KEY" in told
        assert DIGITS not in told


@pytest.mark.parametrize("text", ["secret-secret", "ab" * 31, "ab" * 33, "zz" * 32, "é" * 64])
def test_h3_a_key_of_another_form_is_told_and_not_repeated(tmp_path: Path, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HITHERTO_ENCRYPTION_KEY", text)
        with pytest.raises(ValidationError) as caught:
            SharedSettings()
    told = describe(caught.value)
    assert "HITHERTO_ENCRYPTION_KEY does not hold a key of 64 hexadecimal digits" in told
    assert text not in told
    file = tmp_path / "kek"
    file.write_text(text, "utf-8")
    file.chmod(0o600)
    with pytest.raises(ValueError, match="64 hexadecimal digits") as in_file:
        SharedSettings(encryption_key_file=file).load_key_wrapper()
    assert str(file) in str(in_file.value)
    assert text not in str(in_file.value)


def test_h3_a_key_file_is_never_made(tmp_path: Path) -> None:
    file = tmp_path / "kek"
    with pytest.raises(ValueError, match="cannot be read"):
        SharedSettings(encryption_key_file=file).load_key_wrapper()
    assert not os.path.exists(file)


def test_h3_a_wrapper_that_cannot_be_used_is_told() -> None:
    for name, told in [
        ("no-colon", "package.module:factory"),
        (":cloud", "package.module:factory"),
        ("no.such.module:cloud", "ModuleNotFoundError"),
        (HOOK + "s", "AttributeError"),
        (HOOK.replace("cloud", "fails"), "RuntimeError"),
        (HOOK.replace("cloud", "gives_up"), "SystemExit"),
        (HOOK.replace("cloud", "nothing"), "must return an object"),
        (HOOK.replace("cloud", "Blocking"), "asynchronous"),
        (HOOK.replace("cloud", "Nameless"), "must return an object"),
    ]:
        with pytest.raises(ValueError, match="HITHERTO_KEY_WRAPPER") as caught, refusing(name):
            SharedSettings(key_wrapper=name).load_key_wrapper()
        assert told in str(caught.value)
        assert "hunter2" not in str(caught.value), name
