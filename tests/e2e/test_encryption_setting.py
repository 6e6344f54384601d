"""`encrypt_sensitive` and the user's key (H3): made before it counts, erased with the user."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from hitherto.v1 import memory_pb2
from hitherto_shared.encryption.user_key import UserKey
from tests.e2e.conftest import Services, Shared, StartServices
from tests.e2e.curating import save
from tests.e2e.learning import rows
from tests.e2e.leaving import erase, reinstate
from tests.e2e.privacy import choose, settings
from tests.e2e.sealing import ENCRYPTING, key_files, keys_of
from tests.e2e.sessions import refusal_of
from tests.tenants import Tenant

_USER = "SELECT encrypt_sensitive FROM hitherto.users WHERE user_id = 'ana'"


SERVICE_SETTINGS = ENCRYPTING


@dataclass(frozen=True)
class Keys:
    """The keys of a tenant's users, as another process finds them."""

    folder: Path
    tenant_id: str

    @property
    def files(self) -> list[Path]:
        return key_files(self.folder, self.tenant_id)

    async def open(self) -> UserKey:
        return await keys_of(self.folder).open(self.tenant_id, "ana")

    async def make(self) -> UserKey:
        return await keys_of(self.folder).make(self.tenant_id, "ana")


@pytest.fixture
def keys(shared: Shared | None, services_folder: Path, tenant: Tenant) -> Keys:
    return Keys(services_folder, tenant.tenant_id if shared else "default")


async def test_h3_turned_on_the_user_has_one_key_for_good(
    services: Services, keys: Keys, tenant_conninfo: str
) -> None:
    await choose(services, learning_enabled=True)
    assert rows(tenant_conninfo, _USER) == [(None,)]
    assert keys.files == []
    assert (await choose(services, encrypt_sensitive=True, key="k")).encrypt_sensitive
    assert rows(tenant_conninfo, _USER) == [(True,)]
    made = await keys.open()
    # Again, with and without the idempotency key, and after a pause, it is the same one.
    await choose(services, encrypt_sensitive=True, key="k")
    assert not (await choose(services, encrypt_sensitive=False)).encrypt_sensitive
    await choose(services, encrypt_sensitive=True)
    assert (await keys.open()).key_id == made.key_id
    assert len(keys.files) == 1


async def test_h3_of_somebody_unknown(services: Services, keys: Keys) -> None:
    assert (await choose(services, encrypt_sensitive=True)).encrypt_sensitive
    assert (await settings(services)).encrypt_sensitive
    assert not (await settings(services, "bo")).encrypt_sensitive
    assert len(keys.files) == 1


async def test_h3_a_key_that_does_not_open_refuses_and_changes_nothing(
    services: Services, start_services: StartServices, keys: Keys
) -> None:
    await choose(services, encrypt_sensitive=True)
    await choose(services, encrypt_sensitive=False)
    async with start_services(encryption_key="0b" * 32) as others:
        refusal = await refusal_of(choose(others, encrypt_sensitive=True))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
        assert "hitherto-keys check" in refusal.message
        assert not (await settings(others)).encrypt_sensitive
    assert len(keys.files) == 1


class TestLeaving:
    async def test_h3_the_key_goes_with_the_user(self, services: Services, keys: Keys) -> None:
        await choose(services, encrypt_sensitive=True)
        await choose(services, user="bo", encrypt_sensitive=True)
        assert len(keys.files) == 2
        await erase(services)
        assert len(keys.files) == 1
        refusal = await refusal_of(choose(services, encrypt_sensitive=True))
        assert refusal.reason == "USER_ERASED"
        assert len(keys.files) == 1

    @pytest.mark.parametrize("key", ["", "again"])
    async def test_h3_a_repeated_erase_removes_a_key_that_a_crash_left(
        self, services: Services, keys: Keys, key: str
    ) -> None:
        await choose(services, encrypt_sensitive=True)
        receipt = await erase(services, key=key)
        await keys.make()
        assert await erase(services, key=key) == receipt
        assert keys.files == []

    async def test_h3_whoever_comes_back_starts_without_a_key(
        self, services: Services, keys: Keys
    ) -> None:
        """A key that was left goes; the new one is another, and outlives the old erase's repeat."""
        await choose(services, encrypt_sensitive=True)
        first = await keys.open()
        receipt = await erase(services, key="leave")
        await keys.make()
        assert await reinstate(services)
        assert keys.files == []
        assert not (await settings(services)).encrypt_sensitive
        await choose(services, encrypt_sensitive=True)
        second = await keys.open()
        assert second.key_id != first.key_id
        assert await erase(services, key="leave") == receipt
        assert (await keys.open()).key_id == second.key_id
        await erase(services)
        assert keys.files == []

    async def test_h3_the_key_goes_where_nobody_could_open_it(
        self, start_services: StartServices, keys: Keys
    ) -> None:
        async with start_services(**ENCRYPTING) as services:
            await choose(services, encrypt_sensitive=True)
        async with start_services() as services:
            await erase(services)
        assert keys.files == []


async def test_h3_a_lost_key_is_not_replaced_while_what_it_sealed_is_there(
    services: Services, keys: Keys
) -> None:
    """With another key the old rows could neither be read nor compared, and the old key not put
    back."""
    await choose(services, encrypt_sensitive=True)
    await save(services, "Has asthma", type=memory_pb2.MEMORY_TYPE_PERSONAL)
    (file,) = keys.files
    kept = file.read_bytes()
    file.unlink()
    for name in ("encrypt_sensitive", "learning_enabled"):
        if name == "learning_enabled":
            await choose(services, encrypt_sensitive=False)
        refusal = await refusal_of(choose(services, encrypt_sensitive=True))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
        assert keys.files == []
    file.write_bytes(kept)
    assert (await choose(services, encrypt_sensitive=True)).encrypt_sensitive
    assert await keys.open()
