"""Whether working memory may be kept about a user at all."""

from __future__ import annotations

from hitherto_extraction.storage import users
from hitherto_shared.database.pool import Connection
from hitherto_shared.errors import WrongState
from hitherto_shared.models import Scope


async def admit(connection: Connection, scope: Scope, *, memory_enabled: bool) -> None:
    """Hold off an erase of the user until the caller's transaction ends.

    The user's row is shared with other writers: working memory touches no memory and no profile, so
    an answer never waits for what an extraction writes.

    Args:
        connection: In a transaction.
        scope: Whose working memory it is.
        memory_enabled: Whether memory is on for users who did not choose.

    Raises:
        WrongState: Memory is switched off for the user, or the user was erased.
    """
    state = await users.enter_user(connection, scope)
    if state.why_not_learning(memory_enabled) == "MEMORY_DISABLED":
        raise WrongState(
            "memory is switched off for this user: nothing was stored",
            reason="MEMORY_DISABLED",
            metadata={"user_id": scope.user_id},
        )
