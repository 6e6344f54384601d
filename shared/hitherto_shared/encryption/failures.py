"""Why a sealed value cannot be opened or made."""

from __future__ import annotations

from hitherto_shared.errors import Unavailable, WrongState

REASON = "ENCRYPTION_NOT_CONFIGURED"
RETRY_SECONDS = 5.0


class KeyUnavailable(WrongState):
    """The user's key is unavailable until an administrator acts."""


class EncryptionNotConfigured(KeyUnavailable):
    """This service was given no key-encryption key."""

    def __init__(self) -> None:
        super().__init__(
            "this service has no key for encryption: an administrator must set "
            "HITHERTO_ENCRYPTION_KEY_FILE, HITHERTO_ENCRYPTION_KEY or HITHERTO_KEY_WRAPPER for "
            "both services",
            reason=REASON,
        )


class KeyGone(KeyUnavailable):
    """The user has no key, or none any more: what it sealed is lost."""

    def __init__(self) -> None:
        super().__init__(
            "the key of this user is not in the folder of user keys: an administrator must check "
            "HITHERTO_USER_KEYS_DIR, or restore the folder from a backup",
            reason=REASON,
        )


class KeyNotOpened(KeyUnavailable):
    """The user's key exists and does not open: another key-encryption key, or a changed file."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the key of this user does not open: {why}; an administrator can run "
            "`hitherto-keys check`",
            reason=REASON,
        )


class KeyNotErased(KeyUnavailable):
    """A folder with contents stands in place of the user's key, and is not ours to remove."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"the key of this user cannot be erased: {path} in the folder of user keys is a folder "
            "with contents; an administrator must remove it",
            reason=REASON,
        )


class SealBroken(KeyUnavailable):
    """The user's key exists, and a sealed value of a row does not open with it."""

    def __init__(self) -> None:
        super().__init__(
            "what is stored sealed does not open with the key of this user: it was changed or "
            "moved in the database, or sealed with another key; an administrator must restore it "
            "from a backup",
            reason="SEAL_BROKEN",
        )


class KeyServiceUnavailable(Unavailable):
    """The key-management service, or the folder of user keys, is temporarily unavailable."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} cannot be used at the moment; try again later",
            reason="KEY_SERVICE_UNAVAILABLE",
            retry_after=RETRY_SECONDS,
        )


class DecryptionFailed(Exception):
    """A sealed value was changed, or belongs to another row, user or key."""
