"""Idempotency: one transaction per mutating call; a repeated key returns the first outcome.

Only ids are stored. A repeated call reads the present state of what they name, so that nothing a
user has forgotten meanwhile returns in a reply. The same transaction records the call in the audit
log; a repeated call is recorded as a read if its reply contains another user's data.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hitherto_extraction.storage import idempotency
from hitherto_extraction.storage.idempotency import Identity
from hitherto_shared.audit.trail import NOBODY, Trail
from hitherto_shared.auth.principal import Principal
from hitherto_shared.consistency import Position, commit_and_locate, current_position
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import HithertoError
from hitherto_shared.models import Scope

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class UserCall:
    """A checked call that changes one user's data, and its caller with the key, if any."""

    principal: Principal
    scope: Scope
    identity: Identity | None


@dataclass(frozen=True, slots=True)
class IdempotentResult(Generic[Made]):
    """The outcome of a call, and its point in time."""

    made: Made
    position: Position


@dataclass(frozen=True, slots=True)
class IdempotentOperation(Generic[Made]):
    """An idempotent operation: the change, what its key stores, how a replay rebuilds the reply.

    Attributes:
        change: Makes the change, in the transaction that also remembers the key.
        again: Reads the present state of the outcome with the ids of the first call.
        ids: Names the outcome: ids and counters only, never contents.
        users: The users concerned, so that an erasure finds the key.
        touched: For the audit log, the ids of changed resources by user. None: `ids` of each user.
    """

    change: Callable[[Connection], Awaitable[Made]]
    again: Callable[[Connection, Sequence[str]], Awaitable[Made]]
    ids: Callable[[Made], Sequence[str]] = lambda _: ()
    users: Callable[[Made], Sequence[str]] = lambda _: ()
    touched: Callable[[Made], Mapping[str, Sequence[str]]] | None = None

    def audited(self, made: Made) -> Mapping[str, Sequence[str]]:
        """The audit log's entries for the outcome."""
        if self.touched is not None:
            return self.touched(made)
        return dict.fromkeys(sorted(set(self.users(made))) or [NOBODY], self.ids(made))


class _RacedByTwin(Exception):
    """A concurrent call with the same idempotency key committed first."""


async def once(
    database: Database,
    identity: Identity | None,
    work: IdempotentOperation[Made],
    *,
    timeout: float,
    trail: Trail | None = None,
) -> IdempotentResult[Made]:
    """Run `work` in one transaction, or answer as the first call with the same key did.

    Without `trail`, the audit log gets no record of it.

    Raises:
        AlreadyExists: The key was used for another body.
    """

    async def again(connection: Connection, ids: Sequence[str]) -> Made:
        made = await work.again(connection, ids)
        if trail is not None:
            await trail.note_replay(connection, work.audited(made))
        return made

    async def attempt(connection: Connection) -> IdempotentResult[Made]:
        try:
            async with connection.transaction():
                known = await first_ids(connection, identity)
                if known is None:
                    made = await work.change(connection)
                    await _remember(connection, identity, work, made)
                    if trail is not None:
                        await trail.note_call(connection, work.audited(made))
                else:
                    made = await again(connection, known)
                return IdempotentResult(made, await commit_and_locate(connection))
        except _RacedByTwin:
            made = await again(connection, await first_ids(connection, identity) or [])
        except HithertoError:
            # A concurrent call since the look-up of the key may be the reason for this refusal.
            first = await first_ids(connection, identity)
            if first is None:
                raise
            made = await again(connection, first)
        return IdempotentResult(made, await current_position(connection))

    return await database.run(attempt, timeout=timeout)


async def first_ids(connection: Connection, identity: Identity | None) -> list[str] | None:
    """What the first call with this key stored; None without one, or without a key.

    The first call must have had the same body (`AlreadyExists`).
    """
    if identity is None:
        return None
    return await idempotency.replayed(connection, identity)


async def _remember(
    connection: Connection, identity: Identity | None, work: IdempotentOperation[Made], made: Made
) -> None:
    if identity is None:
        return
    first = await idempotency.take(
        connection,
        identity,
        user_ids=sorted(set(work.users(made))),
        resource_ids=list(work.ids(made)),
    )
    if not first:
        raise _RacedByTwin
