"""Clears the memory of a user (H1): everything becomes FORGOTTEN, in bounded steps.

The first step stops learning, whichever job is processing messages. Each further one is a
transaction of its own, so that other writers of the user wait for one step only. The last one
sweeps the index and stores the idempotency key. A call that repeats its key continues with the rest
of what there was when the first one began.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from hitherto_extraction.curation.profiles import update_profile
from hitherto_extraction.once import IdempotentOperation, IdempotentResult, first_ids, once
from hitherto_extraction.pipeline import doubts
from hitherto_extraction.pipeline.message_removal import delete_conversation, remove_newest
from hitherto_extraction.pipeline.profile import FIELDS
from hitherto_extraction.queue import cancelling
from hitherto_extraction.queue.jobs import announce
from hitherto_extraction.storage import clearing, profiles, reindexing, users
from hitherto_extraction.storage import doubts as doubts_storage
from hitherto_extraction.storage.idempotency import Identity, take
from hitherto_extraction.user_key import with_keys
from hitherto_shared.audit.trail import Trail
from hitherto_shared.database.pool import Connection, Database, countdown
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.encryption.user_keys import UserKeys
from hitherto_shared.errors import NotFound
from hitherto_shared.models import Scope

BATCH = 500
"""Number of memories forgotten in one transaction."""
REASON = "all memories were cleared"

Counts = dict[str, int]


@dataclass(frozen=True, slots=True)
class ClearRequest:
    """The user to clear, the caller, and what else to clear."""

    scope: Scope
    actor: str
    profile: bool
    conversations: bool


@dataclass(frozen=True, slots=True)
class _Extent:
    """The extent of the call: the time at which it began, and the conversations at that time.

    `emptied`: the number of profiles that its first step emptied.
    """

    before: datetime
    conversations: Sequence[str]
    emptied: int = 0


@dataclass(frozen=True, slots=True)
class Clearing:
    """Clears a user's memory."""

    write: Database
    removal: Database
    trail: Trail
    keys: UserKeys

    async def run(
        self, identity: Identity | None, wanted: ClearRequest, *, timeout: float
    ) -> IdempotentResult[Counts]:
        """Clear, or answer as the first call with the same key did; errors as of `shorten`.

        The counts are those of this call, without those of an earlier interrupted one.
        """
        left = countdown(timeout)
        counts = Counter[str]()

        async def begin() -> _Extent | None:
            return await self.removal.transact(
                lambda connection: _begin(connection, identity, wanted), timeout=left()
            )

        extent = await with_keys(self.keys, [wanted.scope], begin)
        if extent is not None:
            counts["profiles"] = extent.emptied
            last: UUID | None = None
            while done := await self.write.transact(
                lambda connection: _forget(
                    connection.of(wanted.scope),
                    extent.before,
                    last,  # noqa: B023
                    wanted.actor,
                ),
                timeout=left(),
            ):
                counts["memories"] += sum(status != "forgotten" for _, status in done)
                last, _ = done[-1]
            for name in extent.conversations:
                shortened = await shorten(self.removal, identity, wanted.scope, name, left)
                counts["messages"] += shortened["messages"]
                removed = await self.removal.transact(
                    lambda connection: _remove(connection.of(wanted.scope), name),  # noqa: B023
                    timeout=left(),
                )
                counts.update(removed)

        async def again(_connection: Connection, ids: Sequence[str]) -> Counts:
            first: Counts = json.loads(ids[0]) if ids else {}
            return first

        async def finish() -> IdempotentResult[Counts]:
            return await once(
                self.removal,
                identity,
                IdempotentOperation(
                    lambda connection: _finish(connection.of(wanted.scope), wanted, counts),
                    again,
                    ids=lambda made: [json.dumps(made)],
                    users=lambda _: [wanted.scope.user_id],
                ),
                timeout=left(),
                trail=self.trail,
            )

        return await with_keys(self.keys, [wanted.scope], finish)


async def _begin(
    connection: Connection, identity: Identity | None, wanted: ClearRequest
) -> _Extent | None:
    """Stop learning and determine the extent; None if the key has been used."""
    if await first_ids(connection, identity) is not None:
        return None
    user = connection.of(wanted.scope)
    await users.enter_alone(user)
    before = await users.database_now(connection)
    begun = None if identity is None else replace(identity, rpc=f"{identity.rpc}/begun")
    first = await first_ids(connection, begun)
    emptied = 0
    if first is not None:
        before = datetime.fromisoformat(first[0])
    else:
        emptied = await _stop(user, wanted)
        if begun is not None:
            named = {"user_ids": [wanted.scope.user_id], "resource_ids": [before.isoformat()]}
            await take(connection, begun, **named)
    names = await clearing.find_conversations(user, before) if wanted.conversations else ()
    return _Extent(before, names, emptied)


async def _stop(user: UserRows, wanted: ClearRequest) -> int:
    """Stop learning, and empty what is emptied at once; returns the number of emptied profiles."""
    # No accepted message is left for a later job, nor for one that is run again.
    backlog = await clearing.lock_backlog(user)
    await cancelling.own_backlog(user, backlog, max_attempts=1)
    await clearing.pass_backlog(user)
    await cancelling.cancel_learning(user)
    await announce(user.connection, "queued")
    if wanted.conversations:
        await clearing.drop_working_memory(user)
    return await _empty_profile(user, wanted.actor) if wanted.profile else 0


async def shorten(
    removal: Database,
    identity: Identity | None,
    scope: Scope,
    conversation_id: str,
    left: Callable[[], float],
) -> Counter[str]:
    """Delete all but the oldest messages of a long conversation; returns the numbers by name.

    Each step is a transaction of its own, until `delete_conversation` can do the rest in one. A
    call whose key has been used deletes nothing, for the conversation may be another one.

    Raises:
        AlreadyExists: The key was used for another body.
        WrongState: The user was erased.
    """

    async def step(connection: Connection) -> Counts:
        if await first_ids(connection, identity) is not None:
            return {}
        return await remove_newest(connection.of(scope), conversation_id)

    counts = Counter[str]()
    while removed := await removal.transact(step, timeout=left()):
        counts.update(removed)
    return counts


async def _forget(
    user: UserRows, before: datetime, after: UUID | None, actor: str
) -> list[tuple[UUID, str]]:
    await users.enter_alone(user)
    return await clearing.forget_some(
        user,
        before=before,
        after=after,
        at=await users.database_now(user.connection),
        actor=actor,
        reason=REASON,
        limit=BATCH,
    )


async def _remove(user: UserRows, conversation_id: str) -> Counts:
    """Delete one conversation, unless it is gone; its words in the index are left to a sweep."""
    try:
        counts = await delete_conversation(user, conversation_id, sweep=False)
    except NotFound:
        return {}
    await reindexing.leave_to_sweep(user)
    return {"conversations": 1, "messages": counts["messages"]}


async def _finish(user: UserRows, wanted: ClearRequest, counts: Counter[str]) -> Counts:
    """The steps of the last transaction, and the counts by name; every name is present."""
    await users.enter_alone(user)
    await clearing.drop_groups(user)
    await doubts.follow(user, await doubts_storage.in_doubt(user), actor=wanted.actor)
    if wanted.conversations:
        # Once for all conversations: it reads the index of the whole user.
        await reindexing.sweep_postings(user)
    return {
        "memories": counts["memories"],
        "profiles": counts["profiles"],
        "conversations": counts["conversations"],
        "messages": counts["messages"],
    }


async def _empty_profile(user: UserRows, actor: str) -> int:
    """Remove the profile's contents and the inferred preferences; returns 1 if there were any.

    Department and access level stay: only a credential that manages profiles changes these.
    """
    held, _ = await profiles.read_profile(user)
    emptied = await update_profile(user, {}, [(name,) for name in FIELDS], version=0, actor=actor)
    ways = await clearing.drop_preferences(user)
    return int(emptied.version != held.version or ways > 0)
