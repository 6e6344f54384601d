"""A key or a secret that others can read, or that is no file, does not start a service."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hitherto_extraction.config import ExtractionSettings
from hitherto_extraction.prices import load_prices
from hitherto_shared.auth.token_settings import _read_secret
from hitherto_shared.database.embedded import EmbeddedPostgresError
from hitherto_shared.database.embedded.credentials import credentials_of
from hitherto_shared.database.embedded.layout import DataFolderLayout
from hitherto_shared.encryption.wrapping import read_kek_file
from hitherto_shared.key_files import (
    load_deployment_secret,
    load_hash_key,
    load_installation_signer,
    load_user_keys,
)
from hitherto_shared.private_file import (
    NotPrivate,
    open_private,
    open_regular,
)
from hitherto_shared.sealing import load_secret
from hitherto_shared.signing import load_signer
from tests.refusing import refusing


def read(path: Path) -> bytes:
    with open_private(path) as file:
        return file.read()


def signing(path: Path) -> object:
    if not path.exists():
        load_signer(path)
    return load_signer(path)


def loading(read: Callable[[Path], object]) -> Callable[[Path], object]:
    def load(path: Path) -> object:
        if not path.exists():
            path.touch(0o600)
            path.write_text("ab" * 32 + "\n")
        return read(path)

    return load


@pytest.mark.parametrize(
    "load",
    [loading(load_secret), loading(read_kek_file), loading(_read_secret), signing],
    ids=["secret", "key-encryption key", "secret of tokens", "signing key"],
)
def test_a_file_that_others_can_read_or_change_is_refused(
    tmp_path: Path, load: Callable[[Path], object]
) -> None:
    path = tmp_path / "key"
    load(path)
    for mode in (0o644, 0o604, 0o660, 0o620, 0o602):
        path.chmod(mode)
        with pytest.raises(ValueError, match=r"chmod 6[04]0") as caught, refusing(oct(mode)):
            load(path)
        assert str(path) in str(caught.value)
        assert "ab" * 4 not in str(caught.value)
    for mode in (0o600, 0o400):
        path.chmod(mode)
        load(path)


NAMED: dict[str, Callable[[ExtractionSettings], object]] = {
    "HITHERTO_SECRET_FILE": load_deployment_secret,
    "HITHERTO_HASH_KEY_FILE": load_hash_key,
    "HITHERTO_SIGNING_KEY_FILE": load_installation_signer,
    "HITHERTO_ENCRYPTION_KEY_FILE": lambda settings: load_user_keys(settings, b"h" * 32),
    "HITHERTO_PRICES_FILE": lambda settings: load_prices(settings.prices_file),
}


def pipe(path: Path) -> str:
    """Nobody writes into it: who opens it waits for ever."""
    os.mkfifo(path, 0o600)
    return "is a pipe"


def loop(path: Path) -> str:
    path.symlink_to(path)
    return "symbolic links"


def folder(path: Path) -> str:
    path.mkdir()
    return "is a directory"


def below_a_file(path: Path) -> str:
    path.parent.rmdir()
    path.parent.touch()
    return "Not a directory|File exists"


@pytest.mark.parametrize("put", [pipe, loop, folder, below_a_file])
def test_what_is_no_file_is_told_with_its_setting(
    tmp_path: Path, put: Callable[[Path], str]
) -> None:
    path = tmp_path / "folder" / "file"
    path.parent.mkdir()
    why = put(path)
    for variable, load in NAMED.items():
        field = variable.removeprefix("HITHERTO_").lower()
        settings = ExtractionSettings.model_validate({field: path})
        with pytest.raises(ValueError, match=why) as caught, refusing(variable):
            load(settings)
        assert str(caught.value).startswith(f"{variable}: {path.parent}")


def test_a_data_folder_that_is_none_is_told_by_its_own_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = ExtractionSettings(data_dir=tmp_path / "file" / "data")
    for load in (load_deployment_secret, load_hash_key, load_installation_signer):
        with pytest.raises(ValueError, match=f"^HITHERTO_DATA_DIR: {tmp_path / 'file'}"):
            load(settings)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another account can enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_mounted_secret_may_be_open_to_our_group(open_folder: Path) -> None:
    """Kubernetes with fsGroup: the file is root's, mode 0440, and the group is ours."""
    path = open_folder / "key"
    path.write_text("ab" * 32)
    for mode in (0o440, 0o640, 0o400):
        path.chmod(mode)
        read(path)
    for mode, right in ((0o444, "640"), (0o460, "640"), (0o644, "640"), (0o604, "600")):
        path.chmod(mode)
        with pytest.raises(NotPrivate, match=f"chmod {right}"):
            read(path)
    # Our own file has no reader but us.
    path.chmod(0o440)
    os.chown(path, 65534, 65534)
    before = os.geteuid()
    os.seteuid(65534)
    try:
        with pytest.raises(NotPrivate, match="chmod 600"):
            read(path)
    finally:
        os.seteuid(before)


def test_a_link_is_followed(tmp_path: Path) -> None:
    """As those of a Kubernetes volume are."""
    path, link = tmp_path / "key", tmp_path / "link"
    path.write_text("ab" * 32)
    path.chmod(0o644)
    link.symlink_to(path)
    with pytest.raises(NotPrivate):
        read(link)
    path.chmod(0o600)
    read(link)


def test_the_passwords_of_the_embedded_database_are_private(tmp_path: Path) -> None:
    layout = DataFolderLayout.prepare(tmp_path / "data")
    made = credentials_of(layout)
    assert layout.credentials.stat().st_mode & 0o777 == 0o600
    layout.credentials.chmod(0o644)
    with pytest.raises(EmbeddedPostgresError, match="chmod") as caught:
        credentials_of(layout)
    assert made.login_password not in str(caught.value)
    layout.credentials.chmod(0o600)
    assert credentials_of(layout) == made


def test_a_pipe_that_took_the_place_of_the_file_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was there when somebody looked."""
    path, before = tmp_path / "key", tmp_path / "before"
    pipe(path)
    before.touch(0o600)
    monkeypatch.setattr(Path, "stat", lambda *_, **__: os.stat(before))
    for opening in (open_regular, open_private):
        with pytest.raises(ValueError, match="is a pipe"), opening(path):
            pass
