"""The start of every read: database, user, deadline, and whether there is anything to read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypeVar

from hitherto_retrieval.opening import Opener
from hitherto_retrieval.readers import Readers
from hitherto_retrieval.storage import people
from hitherto_retrieval.storage.people import UserReadState
from hitherto_retrieval.storage.statement import Statement, ask_at
from hitherto_shared.audit.reads import AuditedReads
from hitherto_shared.database.pool import Reads
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.models import Scope
from hitherto_shared.paging import PageTokens
from hitherto_shared.rpc.call import Context as CallContext
from hitherto_shared.rpc.call import current_call, seconds_left
from hitherto_shared.validation import Checks

_MEMORY_DISABLED = "MEMORY_DISABLED"

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The context of one call: its database, user, deadline (in the loop's time) and opener."""

    scope: Scope
    database: Reads
    deadline: float
    opener: Opener

    async def ask(self, *statements: Statement[Any]) -> None:
        """Send statements in one round trip, within what is left of the deadline.

        A lost connection is retried once.
        """
        await ask_at(self.database, self.deadline, *statements)


@dataclass(frozen=True, slots=True)
class UserReadContext(ReadContext):
    """The context of a call once the user's state is known."""

    user: UserReadState
    disabled: bool

    @property
    def empty(self) -> bool:
        """Whether there is nothing to read: the user is unknown, or memory is off."""
        return not self.user.known or self.user.erased or self.disabled

    @property
    def reason(self) -> str:
        """Why a reply is intentionally empty."""
        return _MEMORY_DISABLED if self.disabled else ""

    async def may_show_sealed(self) -> bool:
        """Whether a list may contain sealed items: there are none, or the key is available."""
        return not self.user.may_be_sealed or await self.opener.fetch() is not None

    async def answer(self, statement: Statement[Found]) -> Found:
        """The answer to one statement."""
        await self.ask(statement)
        return statement.answer


class UserChecks(Checks):
    """The checks of a request about a user, whose id is the first of them."""

    def __init__(self, request: Any) -> None:
        super().__init__()
        self.user_id = self.identifier("user_id", request.user_id)


class ReadCalls:
    """The common part of the groups of RPCs of RetrievalService."""

    def __init__(
        self,
        readers: Readers,
        pages: PageTokens,
        audit: AuditedReads,
        *,
        memory_enabled: bool,
        keys: UserKeys,
    ) -> None:
        self._readers = readers
        self._keys = keys
        self._audit = audit
        self._pages = pages
        self._memory_enabled = memory_enabled

    async def _open(self, checks: UserChecks, request: Any, context: CallContext) -> ReadContext:
        """End the checks, choose the database, and record the read in the audit log."""
        checks.done()
        principal = current_call().principal
        scope = principal.scope(checks.user_id)
        seconds = seconds_left(context)
        deadline = asyncio.get_running_loop().time() + seconds
        database = self._readers.choose(request.consistency_token, principal.tenant_id)
        await self._audit.note([checks.user_id], timeout=seconds)
        return ReadContext(scope, database, deadline, Opener(self._keys, scope, deadline=deadline))

    def _reading(self, opened: ReadContext, user: UserReadState) -> UserReadContext:
        enabled = self._memory_enabled if user.memory_enabled is None else user.memory_enabled
        return UserReadContext(
            opened.scope,
            opened.database,
            opened.deadline,
            opened.opener,
            user,
            disabled=not enabled,
        )

    async def _begin(
        self, checks: UserChecks, request: Any, context: CallContext
    ) -> UserReadContext:
        """As `_open`, and find out whether there is anything to read at all."""
        opened = await self._open(checks, request, context)
        user = people.user(opened.scope)
        await opened.ask(user)
        return self._reading(opened, user.answer)
