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


async def test_h3_turned_on_the_user_has_one_key_for_good(services: Services, keys: Keys) -> None:
    await choose(services, learning_enabled=True)
    assert rows(services.conninfo, _USER) == [(None,)]
    assert keys.files == []
    assert (await choose(services, encrypt_sensitive=True, key="k")).encrypt_sensitive
    assert rows(services.conninfo, _USER) == [(True,)]
    made = await keys.open()
    # Again, with and without the idempotency key, and after a pause, it is the same one.
    await choose(services, encrypt_sensitive=True, key="k")
    assert not (await choose(services, encrypt_sensitive=False)).encrypt_sensitive
    await choose(services, encrypt_sensitive=True)
    assert (await keys.open()).key_id == made.key_id
    assert len(keys.files) == 1
    # Of somebody unknown too.
    assert not (await settings(services, "bo")).encrypt_sensitive
    assert (await choose(services, user="cleo", encrypt_sensitive=True)).encrypt_sensitive
    assert (await settings(services, "cleo")).encrypt_sensitive
    assert len(keys.files) == 2


async def test_h3_a_key_that_does_not_open_refuses_and_changes_nothing(
    services: Services, start_services: StartServices, keys: Keys
) -> None:
    """It goes with the user also where nobody could open it."""
    await choose(services, encrypt_sensitive=True)
    await choose(services, encrypt_sensitive=False)
    async with start_services(encryption_key="0b" * 32) as others:
        refusal = await refusal_of(choose(others, encrypt_sensitive=True))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
        assert "hitherto-keys check" in refusal.message
        assert not (await settings(others)).encrypt_sensitive
    assert len(keys.files) == 1
    async with start_services() as without:
        await erase(without)
    assert keys.files == []


async def test_h3_the_key_goes_with_the_user_and_whoever_comes_back_has_another(
    services: Services, keys: Keys
) -> None:
    """A key that was left goes; the new one outlives the old erase's repeat."""
    for user in ("ana", "bo"):
        await choose(services, user=user, encrypt_sensitive=True)
    first = await keys.open()
    receipt = await erase(services, key="leave")
    assert len(keys.files) == 1
    assert (await refusal_of(choose(services, encrypt_sensitive=True))).reason == "USER_ERASED"
    await erase(services, "bo")
    assert keys.files == []
    # A repeated erase removes a key that a crash left.
    for key in ("", "leave"):
        await keys.make()
        assert await erase(services, key=key) == receipt
        assert keys.files == []
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
    for _ in range(2):
        refusal = await refusal_of(choose(services, encrypt_sensitive=True))
        assert refusal.code is grpc.StatusCode.FAILED_PRECONDITION
        assert refusal.reason == "ENCRYPTION_NOT_CONFIGURED"
        assert keys.files == []
        await choose(services, encrypt_sensitive=False)
    file.write_bytes(kept)
    assert (await choose(services, encrypt_sensitive=True)).encrypt_sensitive
    assert await keys.open()
