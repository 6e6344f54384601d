"""The job of kind `retention`: deletes items past their retention, user by user.

Each short transaction locks the user's row like every writer, then the job's, and checks everything
again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from hitherto_extraction.pipeline.message_removal import MESSAGES_AT_ONCE, remove_messages
from hitherto_extraction.pipeline.user_by_user import BUSY, PageOfUsers, each_user, unless_busy
from hitherto_extraction.queue import claims
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.storage import removal, retention, users
from hitherto_extraction.storage.retention import RetentionDays
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import Scope

_MEMORIES = 200
_USERS = 200
_SECONDS = 30.0
_NAMES = ("memories", "versions", "vectors", "messages", "memories_reindexed")

Removal = Callable[[UserRows, Claim], Awaitable[Mapping[str, int]]]


class Retention:
    """Deletes by the retention of user and installation. The role is hitherto_removal."""

    def __init__(self, database: Database, keep: RetentionDays) -> None:
        """Work on `database`; `keep` applies if a user has set nothing."""
        self._database = database
        self._keep = keep

    async def count(
        self, connection: Connection, tenant_id: str, user_id: str | None
    ) -> dict[str, int]:
        """What a run would delete now, by name."""
        found = await retention.count(connection, tenant_id, self._keep, user_id=user_id)
        return dict(zip(_NAMES, found, strict=False))

    async def run(self, held: Claim) -> None:
        """Delete, and end the job with the counts; see `Decay.run`."""
        counts = Counter[str](held.result.get("counts", {}))
        del counts[BUSY]
        if held.user_id is not None:
            await unless_busy(self._user(held, held.user_id, counts), counts)
        else:
            await self._everybody(held, counts)
        await self._database.run(
            lambda connection: claims.finish(connection, held, _stored(counts)), timeout=_SECONDS
        )

    async def _everybody(self, held: Claim, counts: Counter[str]) -> None:
        async def find(connection: Connection, after: str) -> PageOfUsers:
            return await retention.find_due(
                connection, held.tenant_id, self._keep, after=after, limit=_USERS
            )

        async for user_id in each_user(self._database, find, seconds=_SECONDS):
            await unless_busy(self._user(held, user_id, counts), counts)

    async def _user(self, held: Claim, user_id: str, counts: Counter[str]) -> None:
        """Delete what is due for one user."""
        scope = Scope(held.tenant_id, user_id)
        for remove in (self._remove_messages, self._remove_memories):
            while await self._batch(held, scope, remove, counts):
                pass

    async def _batch(
        self, held: Claim, scope: Scope, remove: Removal, counts: Counter[str]
    ) -> bool:
        """One transaction; False if nothing is left to delete."""

        async def work(connection: Connection) -> Mapping[str, int]:
            user = connection.of(scope)
            users.refuse_while_imported(await users.lock_user(user))
            await claims.hold(connection, held)
            removed = await remove(user, held)
            if removed:
                await claims.record_progress(
                    connection,
                    held,
                    done_to=0,
                    result=_stored(counts + Counter(removed)),
                    finished=False,
                    users=[scope.user_id],
                )
            return removed

        removed = await self._database.transact(work, timeout=_SECONDS)
        counts.update(removed)
        return bool(removed)

    async def _remove_memories(self, user: UserRows, held: Claim) -> Mapping[str, int]:
        found = await retention.find_memories(user, self._keep, limit=_MEMORIES)
        locked = await removal.lock_memories(user, found) if found else []
        # Checked again: a memory returned before the lock was taken is in use after all.
        expired = (
            await retention.find_memories(user, self._keep, limit=_MEMORIES, among=locked)
            if locked
            else []
        )
        if not expired:
            return {}
        return await removal.remove_memories(user, expired, job_id=held.job_id)

    async def _remove_messages(self, user: UserRows, _held: Claim) -> Mapping[str, int]:
        found = await retention.find_messages(user, self._keep, limit=MESSAGES_AT_ONCE)
        if not found:
            return {}
        among = sorted({message.conversation_id for message in found})
        await removal.lock_conversations(user, among)
        outlived = await retention.find_messages(
            user, self._keep, limit=MESSAGES_AT_ONCE, among=among
        )
        reindexed = await remove_messages(user, outlived)
        return {"messages": len(outlived), "memories_reindexed": reindexed}


def _stored(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    busy = {BUSY: counts[BUSY]} if counts.get(BUSY) else {}
    return {"counts": {name: counts.get(name, 0) for name in _NAMES} | busy}
