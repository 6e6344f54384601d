"""How every read begins: which database, whose data, until when, and whether there is anything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from recollect_retrieval.readers import Readers
from recollect_retrieval.storage import people
from recollect_retrieval.storage.people import UserState
from recollect_shared.database.pool import Connection, Database
from recollect_shared.models import Scope
from recollect_shared.paging import PageTokens
from recollect_shared.rpc.call import Context as CallContext
from recollect_shared.rpc.call import current_call, seconds_left

CALL_SECONDS = 5.0
_MEMORY_DISABLED = "MEMORY_DISABLED"

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Reading:
    """Where one call reads, about whom, and until when."""

    scope: Scope
    database: Database
    deadline: float
    user: UserState
    disabled: bool

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read: nobody knows the user, or memory is off."""
        return not self.user.known or self.user.erased or self.disabled

    @property
    def reason(self) -> str:
        """Why a reply is empty on purpose."""
        return _MEMORY_DISABLED if self.disabled else ""

    async def run(self, work: Callable[[Connection], Awaitable[Found]]) -> Found:
        """Read within what is left of the deadline; a lost connection is tried once more."""
        return await self.database.run(
            work,
            timeout=self.deadline - asyncio.get_running_loop().time(),
            repeatable=True,
        )


class Calls:
    """What the groups of calls of RetrievalService have in common."""

    def __init__(self, readers: Readers, pages: PageTokens, *, memory_enabled: bool) -> None:
        self._readers = readers
        self._pages = pages
        self._memory_enabled = memory_enabled

    async def _begin(self, user_id: str, token: str, context: CallContext) -> Reading:
        """Choose the database, and learn whether there is anything to read at all."""
        principal = current_call().principal
        scope = principal.scope(user_id)
        seconds = seconds_left(context, CALL_SECONDS)
        deadline = asyncio.get_running_loop().time() + seconds
        database = await self._readers.choose(token, principal.tenant_id, timeout=seconds)
        user = await database.run(
            lambda c: people.read_user(c, scope),
            timeout=deadline - asyncio.get_running_loop().time(),
            repeatable=True,
        )
        enabled = self._memory_enabled if user.memory_enabled is None else user.memory_enabled
        return Reading(scope, database, deadline, user, disabled=not enabled)
