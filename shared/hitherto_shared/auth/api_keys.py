"""API keys of services: `mk_<id>_<secret>`; only the SHA-256 of the secret is stored."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hitherto_shared.auth.principal import Principal
from hitherto_shared.database.pool import Connection
from hitherto_shared.text.normalise import nfc

_ID_ALPHABET = string.ascii_lowercase + string.digits
_ID_LENGTH = 12

_FIND = """
SELECT tenant_id, name, secret_hash, scopes, user_id, departments, capabilities, user_ids
FROM api_keys
WHERE key_id = %(key_id)s
  AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > clock_timestamp())
"""

_INSERT = """
INSERT INTO api_keys (key_id, tenant_id, name, secret_hash, scopes, user_id, departments,
    capabilities, user_ids, expires_at)
VALUES (%(key_id)s, %(tenant_id)s, %(name)s, %(secret_hash)s, %(scopes)s, %(user_id)s,
        %(departments)s, %(capabilities)s, %(user_ids)s, %(expires_at)s)
"""

_LIST = """
SELECT key_id, tenant_id, name, scopes, user_id, user_ids, departments, capabilities, created_at,
       expires_at, revoked_at
FROM api_keys
WHERE tenant_id = %(tenant_id)s
ORDER BY created_at
"""

_REVOKE = """
UPDATE api_keys SET revoked_at = clock_timestamp()
WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s AND revoked_at IS NULL
"""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is known about a key, without its secret."""

    key_id: str
    tenant_id: str
    name: str
    scopes: list[str]
    user_id: str | None
    user_ids: list[str] | None
    departments: list[str] | None
    capabilities: list[str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


def split_key(text: str) -> tuple[str, bytes] | None:
    """The id and the hash of the secret in `text`, or None if it is not one of our keys."""
    prefix, _, rest = text.partition("_")
    key_id, _, secret = rest.partition("_")
    if prefix != "mk" or len(key_id) != _ID_LENGTH or not secret:
        return None
    if not set(key_id) <= set(_ID_ALPHABET):
        return None
    return key_id, hashlib.sha256(secret.encode()).digest()


async def find_principal(connection: Connection, text: str) -> Principal | None:
    """The caller of the key `text`, or None if it is unknown, revoked or expired."""
    parts = split_key(text)
    if parts is None:
        return None
    key_id, given_hash = parts
    row = await connection.fetch_row(_FIND, {"key_id": key_id})
    if row is None:
        return None
    tenant_id, name, secret_hash, scopes, user_id, departments, capabilities, user_ids = row
    if not hmac.compare_digest(bytes(secret_hash), given_hash):
        return None
    return Principal(
        tenant_id,
        f"key:{key_id}:{name}",
        frozenset(scopes),
        user_id,
        None if departments is None else frozenset(departments),
        frozenset(capabilities),
        None if user_ids is None else frozenset(user_ids),
    )


async def create_key(
    connection: Connection,
    *,
    tenant_id: str,
    name: str,
    scopes: list[str],
    user_id: str | None = None,
    user_ids: Sequence[str] | None = None,
    departments: Sequence[str] | None = None,
    capabilities: Sequence[str] = (),
    expires_at: datetime | None = None,
) -> str:
    """Store a new key and return it: the only time at which the secret is known.

    The key belongs to `user_id`, or to a service if that is None, which may act for the 1 to 100
    users in `user_ids`. `departments` is None for a service without a restriction, which may act
    for every user, or for a user or a list without a department. `scopes` and `capabilities` are
    some of `SCOPES` and `CAPABILITIES`. The role is hitherto_maintenance.
    """
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_LENGTH))
    if user_ids is not None:
        user_ids = sorted({nfc(one) for one in user_ids})
        # A key with departments is restricted even in a process of a version without lists.
        departments = () if departments is None else departments
    secret = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")
    await connection.execute(
        _INSERT,
        {
            "key_id": key_id,
            "tenant_id": tenant_id,
            "name": name,
            "secret_hash": hashlib.sha256(secret.encode()).digest(),
            "scopes": scopes,
            "user_id": nfc(user_id) if user_id is not None else None,
            "departments": None if departments is None else [nfc(one) for one in departments],
            "capabilities": list(capabilities),
            "user_ids": user_ids,
            "expires_at": expires_at,
        },
    )
    return f"mk_{key_id}_{secret}"


async def list_keys(connection: Connection, *, tenant_id: str) -> list[ApiKey]:
    """Every key of a tenant, oldest first, revoked ones included."""
    return await connection.fetch(ApiKey, _LIST, {"tenant_id": tenant_id})


async def revoke_key(connection: Connection, *, tenant_id: str, key_id: str) -> bool:
    """Revoke a key for good; False if the tenant has no such valid key."""
    cursor = await connection.execute(_REVOKE, {"tenant_id": tenant_id, "key_id": key_id})
    return cursor.rowcount == 1
