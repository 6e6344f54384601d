"""Work that finds out under way whether it needs the key of a user.

Whether something of a user is sealed, or is to be, is known for certain only in the transaction
that reads or writes it, and keys are opened outside transactions. So the work is tried without the
key and, where it turns out to need it, done again with it from the start.
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
    """Something sealed is to be read or written, and whoever does it was given no key.

    `with_key_if_needed` answers it. Where nothing does, it is a refusal like that of a service
    without keys: nothing is written in clear.
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
    """Do `work`, with the user's key if it turns out to need it.

    Args:
        keys: What opens it.
        scope: Whose.
        work: In a transaction of its own; it raises `KeyNeeded` if it cannot go on without.

    Raises:
        KeyUnavailable: It needs the key, and that cannot be had.
        KeyServiceUnavailable: It needs the key, and that cannot be had at the moment.
    """
    try:
        return await work(None)
    except KeyNeeded:
        pass
    return await work(await keys.open(scope.tenant_id, scope.user_id))
