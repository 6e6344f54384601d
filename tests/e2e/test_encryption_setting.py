"""`encrypt_sensitive` and the user's key (H3): made before it counts, erased with the user."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from hitherto.v1 import memory_pb2
from tests.e2e.conftest import Services, StartServices
from tests.e2e.curating import save
from tests.e2e.learning import rows
from tests.e2e.leaving import erase, reinstate
from tests.e2e.privacy import choose, settings
from tests.e2e.sealing import ENCRYPTING, key_files, keys_of
from tests.e2e.sessions import refusal_of

_USER = "SELECT encrypt_sensitive FROM hitherto.users WHERE user_id = 'ana'"


@pytest.fixture
async def encrypting(start_services: StartServices) -> AsyncIterator[Services]:
    async with start_services(**ENCRYPTING) as services:
        yield services


async def test_h3_turned_on_the_user_has_one_key_for_good(
    encrypting: Services, tmp_path: Path, superuser_conninfo: str
) -> None:
    await choose(encrypting, learning_enabled=True)
    assert rows(superuser_conninfo, _USER) == [(None,)]
    assert key_files(tmp_path) == []
    assert (await choose(encrypting, encrypt_sensitive=True, key="k")).encrypt_sensitive
    assert rows(superuser_conninfo, _USER) == [(True,)]
    made = await keys_of(tmp_path).open("default", "ana")
    # Again, with and without the idempotency key, and after a pause, it is the same one.
    await choose(encrypting, encrypt_sensitive=True, key="k")
    assert not (await choose(encrypting, encrypt_sensitive=False)).encrypt_sensitive
    await choose(encrypting, encrypt_sensitive=True)
    assert (await keys_of(tmp_path).open("default", "ana")).key_id == made.key_id
    assert len(key_files(tmp_path)) == 1


async def test_h3_of_somebody_unknown(encrypting: Services, tmp_path: Path) -> None:
    assert (await choose(encrypting, encrypt_sensitive=True)).encrypt_sensitive
    assert (await settings(encrypting)).encrypt_sensitive
    assert not (await settings(encrypting, "bo")).encrypt_sensitive
    assert len(key_files(tmp_path)) == 1


async def test_h3_a_key_that_does_not_open_refuses_and_changes_nothing(
    encrypting: Services, start_services: StartServices, tmp_path: Path
) -> None:
    await choose(encrypting, encrypt_sensitive=True)
    await choose(encrypting, encrypt_sensitive=False)
    async with start_services(encryption_key="0b" * 32) as others:
        refusal = await refusal_of(choose(others, encrypt_sensitive=True))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
        assert "hitherto-keys check" in refusal.message
        assert not (await settings(others)).encrypt_sensitive
    assert len(key_files(tmp_path)) == 1


class TestLeaving:
    async def test_h3_the_key_goes_with_the_user(
        self, encrypting: Services, tmp_path: Path
    ) -> None:
        await choose(encrypting, encrypt_sensitive=True)
        await choose(encrypting, user="bo", encrypt_sensitive=True)
        assert len(key_files(tmp_path)) == 2
        await erase(encrypting)
        assert len(key_files(tmp_path)) == 1
        refusal = await refusal_of(choose(encrypting, encrypt_sensitive=True))
        assert refusal.reason == "USER_ERASED"
        assert len(key_files(tmp_path)) == 1

    @pytest.mark.parametrize("key", ["", "again"])
    async def test_h3_a_repeated_erase_removes_a_key_that_a_crash_left(
        self, encrypting: Services, tmp_path: Path, key: str
    ) -> None:
        await choose(encrypting, encrypt_sensitive=True)
        receipt = await erase(encrypting, key=key)
        await keys_of(tmp_path).make("default", "ana")
        assert await erase(encrypting, key=key) == receipt
        assert key_files(tmp_path) == []

    async def test_h3_whoever_comes_back_starts_without_a_key(
        self, encrypting: Services, tmp_path: Path
    ) -> None:
        """A key that was left goes; the new one is another, and outlives the old erase's repeat."""
        await choose(encrypting, encrypt_sensitive=True)
        first = await keys_of(tmp_path).open("default", "ana")
        receipt = await erase(encrypting, key="leave")
        await keys_of(tmp_path).make("default", "ana")
        assert await reinstate(encrypting)
        assert key_files(tmp_path) == []
        assert not (await settings(encrypting)).encrypt_sensitive
        await choose(encrypting, encrypt_sensitive=True)
        second = await keys_of(tmp_path).open("default", "ana")
        assert second.key_id != first.key_id
        assert await erase(encrypting, key="leave") == receipt
        assert (await keys_of(tmp_path).open("default", "ana")).key_id == second.key_id
        await erase(encrypting)
        assert key_files(tmp_path) == []

    async def test_h3_the_key_goes_where_nobody_could_open_it(
        self, start_services: StartServices, tmp_path: Path
    ) -> None:
        async with start_services(**ENCRYPTING) as services:
            await choose(services, encrypt_sensitive=True)
        async with start_services() as services:
            await erase(services)
        assert key_files(tmp_path) == []


async def test_h3_a_lost_key_is_not_replaced_while_what_it_sealed_is_there(
    encrypting: Services, tmp_path: Path
) -> None:
    """With another key the old rows could neither be read nor compared, and the old key not put
    back."""
    await choose(encrypting, encrypt_sensitive=True)
    await save(encrypting, "Has asthma", type=memory_pb2.MEMORY_TYPE_PERSONAL)
    (file,) = key_files(tmp_path)
    kept = file.read_bytes()
    file.unlink()
    for name in ("encrypt_sensitive", "learning_enabled"):
        if name == "learning_enabled":
            await choose(encrypting, encrypt_sensitive=False)
        refusal = await refusal_of(choose(encrypting, encrypt_sensitive=True))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
        assert key_files(tmp_path) == []
    file.write_bytes(kept)
    assert (await choose(encrypting, encrypt_sensitive=True)).encrypt_sensitive
    assert await keys_of(tmp_path).open("default", "ana")
