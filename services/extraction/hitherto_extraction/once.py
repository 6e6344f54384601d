"""Idempotency: one transaction per mutating call; a repeated key returns the first outcome.

What is kept of a call are the ids of the resources it made or changed. A repeated call reads these
resources as they are now, so that nothing a person forgot in the meantime comes back in a reply.

The same transaction writes the call down in the audit log. A repeated call changes nothing; it is
written down as a read where somebody else's data is told in the reply.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hitherto_extraction.storage import idempotency
from hitherto_shared.audit.trail import NOBODY, Trail
from hitherto_shared.consistency import Position, current_position
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import HithertoError

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes a repeated call recognisable: its key, its method and the hash of its body.

    A key is that of one credential, for which `subject` stands (`Trail.caller`).
    """

    tenant_id: str
    subject: str
    rpc: str
    key: str
    body_hash: bytes


@dataclass(frozen=True, slots=True)
class IdempotentResult(Generic[Made]):
    """What a call made, and the moment that covers it."""

    made: Made
    position: Position


@dataclass(frozen=True, slots=True)
class IdempotentOperation(Generic[Made]):
    """An idempotent operation: the change, what its key stores, how a replay rebuilds the reply.

    Attributes:
        change: Makes the change, in the transaction that also remembers the key.
        ids: Names the outcome: ids and counters only, never contents.
        again: Reads the outcome of these ids as it is now.
        users: Whose data the outcome is, so that an erase finds the key.
        touched: For the audit log, the ids of what was touched by user. None: `ids` of each user.
    """

    change: Callable[[Connection], Awaitable[Made]]
    ids: Callable[[Made], Sequence[str]]
    again: Callable[[Connection, Sequence[str]], Awaitable[Made]]
    users: Callable[[Made], Sequence[str]]
    touched: Callable[[Made], Mapping[str, Sequence[str]]] | None = None

    def told(self, made: Made) -> Mapping[str, Sequence[str]]:
        """What the audit log is told of the outcome."""
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
    """Do `work` in one transaction, or answer as the first call with the same key did.

    Args:
        database: Where to; its role must be allowed to make the change.
        identity: The caller's key, or None if the call came without one.
        work: The change.
        timeout: Seconds for all of it.
        trail: Where a call of somebody is written down; None where nobody is to be told of it.

    Raises:
        AlreadyExists: The key was used for another body.
    """

    async def again(connection: Connection, ids: Sequence[str]) -> Made:
        made = await work.again(connection, ids)
        if trail is not None:
            await trail.note_replay(connection, work.told(made))
        return made

    async def attempt(connection: Connection) -> IdempotentResult[Made]:
        try:
            async with connection.transaction():
                known = await _first_ids(connection, identity)
                if known is None:
                    made = await work.change(connection)
                    await _remember(connection, identity, work, made)
                    if trail is not None:
                        await trail.note_call(connection, work.told(made))
                else:
                    made = await again(connection, known)
        except _RacedByTwin:
            made = await again(connection, await _first_ids(connection, identity) or [])
        except HithertoError:
            # What a twin has done since we looked for the key can be why it is refused now.
            first = await _first_ids(connection, identity)
            if first is None:
                raise
            made = await again(connection, first)
        return IdempotentResult(made, await current_position(connection))

    return await database.run(attempt, timeout=timeout)


async def _first_ids(connection: Connection, identity: Identity | None) -> list[str] | None:
    if identity is None:
        return None
    return await idempotency.replayed(
        connection,
        tenant_id=identity.tenant_id,
        subject=identity.subject,
        rpc=identity.rpc,
        key=identity.key,
        body_hash=identity.body_hash,
    )


async def _remember(
    connection: Connection, identity: Identity | None, work: IdempotentOperation[Made], made: Made
) -> None:
    if identity is None:
        return
    first = await idempotency.take(
        connection,
        tenant_id=identity.tenant_id,
        subject=identity.subject,
        rpc=identity.rpc,
        key=identity.key,
        user_ids=sorted(set(work.users(made))),
        body_hash=identity.body_hash,
        resource_ids=list(work.ids(made)),
    )
    if not first:
        raise _RacedByTwin
