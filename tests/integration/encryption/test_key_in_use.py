"""Which key seals (H3): the one with which encryption was last turned on, opened beforehand."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from hitherto_extraction.curation.user_settings import Sealing, UserSettings, change_settings
from hitherto_extraction.sealing import SealedVectors, SealingSweep
from hitherto_extraction.storage import conversations, profiles, users
from hitherto_extraction.storage.conversations import IncomingMessage
from hitherto_extraction.storage.sealed_rows import sealing_key
from hitherto_shared.database.pool import Database
from hitherto_shared.database.tenancy import acting_for
from hitherto_shared.encryption.at_hand import KeyNeeded, keys_at_hand
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.rows import PROFILE
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import LocalWrapper
from hitherto_shared.models import Profile, Scope

SCOPE = Scope("t", "ana")


@pytest.fixture
async def database(conninfo: str) -> AsyncIterator[Database]:
    opened = Database(conninfo, "hitherto_write", application="test", max_size=1)
    await opened.open()
    try:
        with acting_for(SCOPE.tenant_id):
            yield opened
    finally:
        await opened.close()


@pytest.fixture
def keys(tmp_path: Path) -> UserKeys:
    return UserKeys(LocalWrapper(os.urandom(32)), KeyStore(tmp_path), os.urandom(32))


async def two_keys(database: Database, keys: UserKeys) -> tuple[UserKey, UserKey]:
    """One of before an erase, and the one with which the user has turned encryption on since."""
    old = await keys.make(SCOPE.tenant_id, SCOPE.user_id)
    await keys.erase(SCOPE.tenant_id, SCOPE.user_id)
    new = await keys.make(SCOPE.tenant_id, SCOPE.user_id)

    async def say(connection: Any) -> None:
        async with connection.transaction():
            await conversations.open_conversation(connection.of(SCOPE), "c", time_zone=None)
            said = IncomingMessage("m", "user", "", "zzclear", None)
            await conversations.insert_messages(connection.of(SCOPE), "c", [said], first_no=1)

    async def enter(connection: Any) -> None:
        async with connection.transaction():
            await users.enter_user(connection.of(SCOPE))

    async def choose(connection: Any) -> None:
        async with connection.transaction():
            await change_settings(
                connection.of(SCOPE),
                {"encrypt_sensitive": True},
                ["encrypt_sensitive"],
                UserSettings(),
                Sealing(keys, new),
            )

    for work in (enter, say, choose):
        await database.run(work, timeout=120)
    return old, new


async def test_h3_an_old_key_seals_nothing_once_another_was_turned_on(
    database: Database, keys: UserKeys
) -> None:
    old, new = await two_keys(database, keys)

    async def write(connection: Any) -> bool:
        async with connection.transaction():
            user = connection.of(SCOPE)
            await users.lock_user(user)
            return await sealing_key(user) is not None

    async def write_profile(connection: Any) -> bool:
        profile = Profile(SCOPE.user_id, summary="zzsummary", version=1)
        async with connection.transaction():
            await users.lock_user(connection.of(SCOPE))
            await profiles.write_profile(
                connection.of(SCOPE), Profile(SCOPE.user_id), profile, {}, actor="ana", job_id=None
            )
            return bool(await connection.fetch_value("SELECT sealed IS NOT NULL FROM profiles"))

    for work in (write, write_profile):
        with pytest.raises(KeyNeeded), keys_at_hand(old):
            await database.run(work, timeout=120)
        with keys_at_hand(new):
            assert await database.run(work, timeout=120)


class FilledAlready:
    """Vectors are not what this is about."""

    async def fill(self, _scope: Scope) -> bool:
        return True


class Opening:
    """Keys of which the first that is opened is an old one, as when it was opened long ago."""

    def __init__(self, *keys: UserKey) -> None:
        self._keys = list(keys)

    async def open(self, _tenant_id: str, _user_id: str) -> UserKey:
        return self._keys.pop(0)


async def test_h3_the_sweep_leaves_to_the_new_key_what_an_old_one_would_seal(
    database: Database, keys: UserKeys, conninfo: str
) -> None:
    old, new = await two_keys(database, keys)
    maintenance, removal = (
        Database(conninfo, role, application="test", max_size=1)
        for role in ("hitherto_maintenance", "hitherto_removal")
    )
    for each in (maintenance, removal):
        await each.open()
    try:
        sweep = SealingSweep(
            maintenance,
            removal,
            cast(UserKeys, Opening(old, new)),
            cast(SealedVectors, FilledAlready()),
        )

        async def said(connection: Any) -> list[str]:
            found = await conversations.read_messages(connection.of(SCOPE), "c", 1, 1)
            return [message.content for message in found if message.sealed]

        assert await sweep.run() == 0
        with keys_at_hand(new):
            assert await database.run(said, timeout=120) == []
            assert await sweep.run() == 1
            assert await database.run(said, timeout=120) == ["zzclear"]
    finally:
        for each in (maintenance, removal):
            await each.close()


# `hitherto-keys rewrap`, killed at random again and again beside a service that goes on (H3).


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
