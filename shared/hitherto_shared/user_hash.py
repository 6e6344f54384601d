"""The keyed hash that replaces a user id where the id itself must not be stored.

Ids such as e-mail addresses are easy to guess; without the key a guess cannot be tested. The key is
never in the database, so that a dump alone reveals nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json

_PURPOSE = b"hitherto/user-hash\0"
_CREDENTIAL = b"hitherto/credential-hash\0"
_CHECK = b"hitherto/hash-key-check\0"


def user_hash(key: bytes, tenant_id: str, user_id: str) -> str:
    """HMAC-SHA256 of a user of a tenant, in lower-case hexadecimal (64 digits).

    The same id under another tenant has another hash.
    """
    # As JSON, because a separator could also occur in the texts.
    named = json.dumps([tenant_id, user_id], separators=(",", ":")).encode()
    return hmac.new(key, _PURPOSE + named, hashlib.sha256).hexdigest()


def credential_hash(key: bytes, tenant_id: str, subject: str) -> str:
    """The same for a credential: `subject` may name a user."""
    named = json.dumps([tenant_id, subject], separators=(",", ":")).encode()
    return hmac.new(key, _CREDENTIAL + named, hashlib.sha256).hexdigest()


def hash_key_id(key: bytes) -> str:
    """Identifies a hash key without revealing it; 16 hexadecimal digits."""
    return hmac.new(key, _CHECK, hashlib.sha256).hexdigest()[:16]
