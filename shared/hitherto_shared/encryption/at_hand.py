"""The data keys that are at hand in a call, a job or a sweep.

Keys are opened outside transactions, and only a transaction can tell whether it meets a sealed row.
Like the tenant, they are carried in a context variable from the one to the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from hitherto_shared.encryption.failures import REASON, KeyUnavailable
from hitherto_shared.encryption.user_key import UserKey
from hitherto_shared.models import Scope

_keys: ContextVar[Mapping[tuple[str, str], UserKey]] = ContextVar("hitherto_user_keys")


class KeyNeeded(KeyUnavailable):
    """A sealed value is to be read or written, and its user's key is not at hand.

    The work is repeated with the key. Unhandled, it is a refusal like that of a service without
    keys: nothing is written in clear.
    """

    def __init__(self) -> None:
        super().__init__(
            "this needs the key of a user who encrypts, and was begun without, as when encryption "
            "was turned on meanwhile: try again",
            reason=REASON,
        )


@contextmanager
def keys_at_hand(*keys: UserKey | None) -> Iterator[None]:
    """Have these keys, and no others, at hand within the block; None: a user without a key."""
    found = {(key.tenant_id, key.user_id): key for key in keys if key is not None}
    before = _keys.set(found)
    try:
        yield
    finally:
        _keys.reset(before)


def key_at_hand(scope: Scope) -> UserKey:
    """The key of a user; raises KeyNeeded if it is not at hand."""
    key = _keys.get({}).get((scope.tenant_id, scope.user_id))
    if key is None:
        raise KeyNeeded
    return key
