"""`hitherto-keys rewrap`, killed at random again and again beside a service that goes on (H3)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.rows import PROFILE
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import LocalWrapper

OLD, NEW, HASH_KEY = b"o" * 32, b"n" * 32, b"h" * 32
PLACE = PROFILE.place(1)
PEOPLE, KILLS = 150, 6


def begun(folder: Path) -> subprocess.Popen[str]:
    """The command, which says when the modules are there."""
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from hitherto_shared.encryption.command import main; print('ready', flush=True);"
            f"raise SystemExit(main(['rewrap', '--old-key-file', {str(folder / 'old')!r}]))",
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "HITHERTO_USER_KEYS_DIR": str(folder / "keys"),
            "HITHERTO_ENCRYPTION_KEY_FILE": str(folder / "new"),
        },
    )


@pytest.mark.faults
@pytest.mark.parametrize("seed", [1])
async def test_h3_no_key_is_lost_and_none_comes_back(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for name, kek in (("old", OLD), ("new", NEW)):
        (tmp_path / name).write_text(kek.hex())
        (tmp_path / name).chmod(0o600)

    def service(kek: bytes) -> UserKeys:
        return UserKeys(LocalWrapper(kek), KeyStore(tmp_path / "keys"), HASH_KEY)

    old = service(OLD)
    sealed: dict[str, bytes] = {}
    for number in range(PEOPLE):
        sealed[f"u{number}"] = (await old.make("t", f"u{number}")).seal({"of": number}, PLACE)
    gone: set[str] = set()
    for turn in range(KILLS):
        process = begun(tmp_path)
        assert process.stdout is not None
        process.stdout.readline()
        # Whatever it has done meanwhile: a service with the old key makes and erases some.
        for number in range(chance.randrange(8)):
            name = f"later {turn} {number}"
            sealed[name] = (await old.make("t", name)).seal({"of": name}, PLACE)
            name = chance.choice(sorted(sealed))
            await old.erase("t", name)
            del sealed[name]
            gone.add(name)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = begun(tmp_path)
    told, _ = process.communicate(timeout=180)
    assert process.returncode == 0, told
    new = service(NEW)
    assert len(list(KeyStore(tmp_path / "keys").hashes())) == len(sealed)
    for name, text in sealed.items():
        assert (await new.open("t", name)).open(text, PLACE)
    assert not gone & sealed.keys()
