"""The keyed hash that replaces a user id where the id itself must not be stored.

An id such as an e-mail address is guessed easily; without the key a guess cannot be tried. The key
never lies in the database, so that a dump alone tells nothing.
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

    Args:
        key: The installation's hash key; see `startup.load_hash_key`.
        tenant_id: Whose user. The same id under another tenant has another hash.
        user_id: The user.
    """
    # As JSON, because two texts joined by any sign could also be two others.
    named = json.dumps([tenant_id, user_id], separators=(",", ":")).encode()
    return hmac.new(key, _PURPOSE + named, hashlib.sha256).hexdigest()


def credential_hash(key: bytes, tenant_id: str, subject: str) -> str:
    """The same for a credential: `subject` may name a person."""
    named = json.dumps([tenant_id, subject], separators=(",", ":")).encode()
    return hmac.new(key, _CREDENTIAL + named, hashlib.sha256).hexdigest()


def hash_key_id(key: bytes) -> str:
    """Tells one hash key from another and nothing else about it; 16 hexadecimal digits."""
    return hmac.new(key, _CHECK, hashlib.sha256).hexdigest()[:16]
