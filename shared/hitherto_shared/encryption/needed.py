"""Runs work that may turn out to need a user's data key.

Only the transaction that reads or writes rows can tell for certain whether any of them is sealed,
or is to be, and keys are opened outside transactions. The work is therefore tried without the key
and, if it needs one, repeated from the start with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from hitherto_shared.encryption.failures import REASON, KeyUnavailable
from hitherto_shared.encryption.sealed import UserKey
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.models import Scope

Done = TypeVar("Done")


class KeyNeeded(KeyUnavailable):
    """A sealed value is to be read or written, and there is no key.

    `with_key_if_needed` handles it. Unhandled, it is a refusal like that of a service without keys:
    nothing is written in clear.
    """

    def __init__(self) -> None:
        super().__init__(
            "this needs the key of a user who encrypts, and was begun without, as when encryption "
            "was turned on meanwhile: try again",
            reason=REASON,
        )


async def with_key_if_needed(
    keys: UserKeys, scope: Scope, work: Callable[[UserKey | None], Awaitable[Done]]
) -> Done:
    """Run `work`, with the user's key if it turns out to need it.

    Args:
        keys: Opens the key.
        scope: The user.
        work: In a transaction of its own; it raises `KeyNeeded` if it cannot continue without.

    Raises:
        KeyUnavailable: It needs the key, which is unavailable.
        KeyServiceUnavailable: It needs the key, which is temporarily unavailable.
    """
    try:
        return await work(None)
    except KeyNeeded:
        pass
    return await work(await keys.open(scope.tenant_id, scope.user_id))
