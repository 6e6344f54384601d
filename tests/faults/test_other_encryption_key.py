"""Services with a key-encryption key that does not open what is stored: they serve, and say so."""

from __future__ import annotations

import pytest

from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.encryption.wrapping import LocalWrapper
from tests.faults.processes import Name, Processes

pytestmark = pytest.mark.faults

OLD = b"o" * 32


@pytest.mark.parametrize("name", ["extraction", "retrieval"])
async def test_h3_a_service_says_so_at_its_start(shared: Processes, name: Name) -> None:
    store = KeyStore(shared.data_dir / "user-keys")
    await UserKeys(LocalWrapper(OLD), store, b"h" * 32).make("default", "ana")
    wrong = await shared.start(name, HITHERTO_ENCRYPTION_KEY="ab" * 32)
    right = await shared.start(name, HITHERTO_ENCRYPTION_KEY=OLD.hex())
    none = await shared.start(name)
    assert wrong.said.count("wrapped with another key-encryption key") == 1
    assert "hitherto-keys rewrap" in wrong.said
    assert "keys of users" not in right.said
    assert "no key-encryption key is set" in none.said
