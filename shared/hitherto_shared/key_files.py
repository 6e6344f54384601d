"""The keys of an installation: files that a service creates on first use, and the keys of users."""

from __future__ import annotations

import logging
from pathlib import Path

from hitherto_shared.config import SharedSettings
from hitherto_shared.encryption.examination import try_keys
from hitherto_shared.encryption.failures import KeyServiceUnavailable
from hitherto_shared.encryption.key_store import KeyStore
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.private_file import named_by
from hitherto_shared.sealing import load_secret
from hitherto_shared.signing import Signer, load_signer

logger = logging.getLogger("hitherto.startup")

_KEYS_TRIED = 4
"""At each start; a key-management service may be asked for each."""


def load_deployment_secret(settings: SharedSettings) -> bytes:
    """The secret for page and consistency tokens.

    Raises:
        ValueError: The file cannot be used; the message names the variable, here and below.
    """
    with named_by(_setting(settings.secret_file, "HITHERTO_SECRET_FILE")):
        return load_secret(secret_path(settings))


def secret_path(settings: SharedSettings) -> Path:
    """The path of the secret for tokens."""
    return settings.secret_file or settings.data_dir / "secret"


def load_installation_signer(settings: SharedSettings) -> Signer:
    """The signer of receipts and digests; the key is created on first use."""
    with named_by(_setting(settings.signing_key_file, "HITHERTO_SIGNING_KEY_FILE")):
        return load_signer(signing_key_path(settings))


def signing_key_path(settings: SharedSettings) -> Path:
    """The path of the key for receipts and digests."""
    return settings.signing_key_file or settings.data_dir / "signing_key.pem"


def load_hash_key(settings: SharedSettings) -> bytes:
    """The key of `user_hash`, created on first use."""
    with named_by(_setting(settings.hash_key_file, "HITHERTO_HASH_KEY_FILE")):
        return load_secret(hash_key_path(settings))


def hash_key_path(settings: SharedSettings) -> Path:
    """The path of the key of `user_hash`."""
    return settings.hash_key_file or settings.data_dir / "hash_key"


def user_keys_dir(settings: SharedSettings) -> Path:
    """The folder of users' wrapped data keys."""
    return settings.user_keys_dir or settings.data_dir / "user-keys"


def load_user_keys(settings: SharedSettings, hash_key: bytes) -> UserKeys:
    """The data keys of users; without a key-encryption key they report that it is not configured.

    Raises:
        ValueError: The key-encryption key is invalid; the message names the variable.
    """
    return UserKeys(settings.load_key_wrapper(), KeyStore(user_keys_dir(settings)), hash_key)


async def open_user_keys(settings: SharedSettings, hash_key: bytes) -> UserKeys:
    """`load_user_keys`; a key-encryption key that does not open what is stored is logged."""
    store = KeyStore(user_keys_dir(settings))
    try:
        tried = await try_keys(store, settings.load_key_wrapper(), most=_KEYS_TRIED)
    except (KeyServiceUnavailable, OSError) as error:
        logger.warning("no user key could be tried: %s", error)
    else:
        if tried.fault:
            logger.warning("%s; %s", tried.fault, tried.remedy)
    return load_user_keys(settings, hash_key)


def _setting(chosen: Path | None, variable: str) -> str:
    """The variable that says where a file is: its own, or that of the folder of all."""
    return "HITHERTO_DATA_DIR" if chosen is None else variable
