"""Opening what rows hold sealed, with the key of their user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect_shared.encryption.failures import REASON, KeyUnavailable
from recollect_shared.encryption.sealed import UserKey
from recollect_shared.models import Scope


class KeyNeeded(KeyUnavailable):
    """Something is sealed, or is to be, and the caller has not opened the user's key yet.

    Attributes:
        scope: Whose key.
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__(
            "what is stored of this user is encrypted and their key is not open: try again; if it "
            "stays so, an administrator must check RECOLLECT_ENCRYPTION_KEY_FILE and "
            "RECOLLECT_USER_KEYS_DIR",
            reason=REASON,
        )
        self.scope = scope


def opened(
    key: UserKey | None, scope: Scope, sealed: bytes, place: Sequence[str]
) -> dict[str, Any]:
    """What `sealed` holds.

    Raises:
        KeyNeeded: There is no key to open it with.
        BrokenSeal: It was changed, or belongs to another row, user or key.
    """
    if key is None:
        raise KeyNeeded(scope)
    return key.open(sealed, place)
