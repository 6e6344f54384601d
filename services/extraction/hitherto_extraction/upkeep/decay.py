"""The job of kind `decay`: archives memories, batch by batch over all users of a tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence

from hitherto_extraction.pipeline.user_by_user import BUSY, PageOfUsers, each_user, unless_busy
from hitherto_extraction.queue import claims
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.storage import upkeep, users
from hitherto_extraction.storage.upkeep import Named
from hitherto_shared.database.pool import Connection, Database

BATCH = 1_000
"""Memories examined, and so archived at most, in one transaction."""
_USERS = 500
_SECONDS = 30.0


class Decay:
    """Archives by the rules of decay and by the limit. The role is hitherto_maintenance."""

    def __init__(self, database: Database, *, max_memories: int, batch: int = BATCH) -> None:
        """Work on `database`, keeping at most `max_memories` active ones per user (0: no limit)."""
        self._database = database
        self._most = max_memories
        self._batch = batch

    async def count(
        self, connection: Connection, tenant_id: str, user_id: str | None
    ) -> dict[str, int]:
        """What a run would archive now, by name."""
        found = await upkeep.count(connection, tenant_id, user_id=user_id, most=self._most)
        return _counts(_named(found))

    async def run(self, held: Claim) -> None:
        """Archive, and end the job with the counts; another attempt continues.

        Raises:
            ClaimLost: The claim was lost; nothing was written after that.
        """
        counts = Counter[str](held.result.get("counts", {}))
        del counts[BUSY]
        busy: set[str] = set()
        async for fading in self._fading(held, held.user_id):
            busy |= await self._archive(held, fading, counts, wait=False)
        for user_id in sorted(busy):
            await self._wait_for(held, user_id, counts)
        if self._most:
            await self._cap(held, counts)
        await self._database.run(
            lambda connection: claims.finish(connection, held, {"counts": _counts(counts)}),
            timeout=_SECONDS,
        )

    async def _wait_for(self, held: Claim, user_id: str, counts: Counter[str]) -> None:
        """Scan one user's memories, waiting for other writers."""
        async for fading in self._fading(held, user_id):
            if not await unless_busy(self._archive(held, fading, counts, wait=True), counts):
                return

    async def _fading(self, held: Claim, user_id: str | None) -> AsyncIterator[Sequence[Named]]:
        """What is to be archived of one user or of all, step by step of the scan."""
        last: Named | None = (user_id or "", upkeep.FIRST)

        async def look(connection: Connection) -> tuple[list[Named], Named | None]:
            assert last is not None
            return await upkeep.look(
                connection, held.tenant_id, user_id=user_id, after=last, limit=self._batch
            )

        while last is not None:
            fading, last = await self._database.run(look, timeout=_SECONDS, repeatable=True)
            if fading:
                yield fading

    async def _archive(
        self, held: Claim, fading: Sequence[Named], counts: Counter[str], *, wait: bool
    ) -> set[str]:
        """One transaction; returns the users it had to skip because they were busy."""
        wanted = sorted({user_id for user_id, _ in fading})

        async def work(connection: Connection) -> set[str]:
            async with connection.transaction():
                got = await upkeep.lock_users(connection, held.tenant_id, wanted, wait=wait)
                await claims.hold(connection, held)
                archived = await upkeep.archive(
                    connection,
                    held.tenant_id,
                    [named for named in fading if named[0] in got],
                    at=await users.database_now(connection),
                    job_id=held.job_id,
                )
                named = _named(archived)
                await _keep(connection, held, counts + named, got if named.total() else ())
            counts.update(named)
            return set(wanted) - got

        return await self._database.run(work, timeout=_SECONDS)

    async def _cap(self, held: Claim, counts: Counter[str]) -> None:
        """Archive memories beyond the limit, user by user."""
        if held.user_id is not None:
            await unless_busy(self._cap_user(held, held.user_id, counts), counts)
            return

        async def find(connection: Connection, after: str) -> PageOfUsers:
            return await upkeep.find_crowded(
                connection, held.tenant_id, most=self._most, after=after, limit=_USERS
            )

        async for user_id in each_user(self._database, find, seconds=_SECONDS):
            await unless_busy(self._cap_user(held, user_id, counts), counts)

    async def _cap_user(self, held: Claim, user_id: str, counts: Counter[str]) -> None:
        async def work(connection: Connection) -> int:
            async with connection.transaction():
                if not await upkeep.lock_users(connection, held.tenant_id, [user_id], wait=True):
                    return 0
                await claims.hold(connection, held)
                at = await users.database_now(connection)
                surplus = await upkeep.find_surplus(
                    connection, held.tenant_id, user_id, most=self._most, at=at, limit=self._batch
                )
                if not surplus:
                    return 0
                archived = await upkeep.archive(
                    connection, held.tenant_id, surplus, at=at, job_id=held.job_id, surplus=True
                )
                await _keep(connection, held, counts + _named(archived), [user_id])
            counts.update(_named(archived))
            return sum(archived.values())

        while await self._database.run(work, timeout=_SECONDS):
            pass


async def _keep(
    connection: Connection, held: Claim, counts: Counter[str], users: Collection[str]
) -> None:
    await claims.record_progress(
        connection, held, done_to=0, result={"counts": _counts(counts)}, finished=False, users=users
    )


def _named(found: Mapping[str, int]) -> Counter[str]:
    """Counts by rule as a job tells them."""
    return Counter({f"archived_{rule}": number for rule, number in found.items()})


def _counts(found: Mapping[str, int]) -> dict[str, int]:
    """Counts by name with their sum; every name is present, so that 0 differs from unknown."""
    named = {name: found.get(name, 0) for name in _named(dict.fromkeys(upkeep.REASONS, 0))}
    busy = {BUSY: found[BUSY]} if found.get(BUSY) else {}
    return {"archived": sum(named.values()), **named, **busy}
