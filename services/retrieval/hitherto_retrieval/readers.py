"""Chooses the database of a read: the replica if it is suitable, else the primary.

The rule for a call, with its share of the remaining time:

1. The replica, unless it is unreachable. With a consistency token, the call first checks whether
   the replica has replayed that position, and waits for a small gap (a twentieth of the time, 20 ms
   at most). For a larger gap, or another timeline or database, the primary is faster.
2. The primary, if the replica is behind, lost, frozen, too busy or refuses.
3. The replica again, if the primary is unreachable as well; now the call waits for it to catch up.

A replica that was promoted, follows an old primary after a failover, or belongs to another database
would show old data to calls without a token for ever. It is bypassed until it follows the primary.

A query that the standby cancelled because it conflicted with replay is repeated there once. Every
step checks the very connection it reads from, so that the name of the replica may stand for several
servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakSet

from hitherto_retrieval.database_health import DatabaseHealth
from hitherto_shared import tasks
from hitherto_shared.consistency import ConsistencyTokens, Position, bytes_missing, lineage_of
from hitherto_shared.database.faults import translate
from hitherto_shared.database.pool import Connection, Database, Reads, countdown
from hitherto_shared.errors import Conflict, Exhausted, TooLate, Unavailable

_SHARE = 0.5
"""The share of the remaining time that a database may use while another one could still answer."""
_KEY_SECONDS = 1.0
"""Longest time for looking up an API key, which takes a fraction of a millisecond."""

_SMALL_GAP_BYTES = 1 << 20
_SHORT_WAIT_SECONDS = 0.02
_SHORT_WAIT_SHARE = 0.05
_LONG_WAIT_SHARE = 0.8
_LOOK_AGAIN_SECONDS = 0.005
_OPEN_SECONDS = 30.0
_OTHER_OPEN_SECONDS = 2.0
_WATCH_SECONDS = 5.0
"""Interval at which the replica is asked whether it follows the primary."""
_LINEAGE_SECONDS = 0.5

Result = TypeVar("Result")
Work = Callable[[Connection], Awaitable[Result]]


class _ReplicaBehind(Exception):
    """The replica has not replayed the caller's write."""


async def _require_one_server(connection: Connection) -> None:
    """Check that a replica of the primary shows what was written there.

    Raises:
        ValueError: Citus keeps the rows on other servers.
    """
    if connection.is_distributed:
        raise ValueError(
            "HITHERTO_READ_DATABASE_URL must be unset on Citus: a replica of the coordinator has no"
            " rows of users, and a consistency token is a position in the log of one server"
        )


class Readers:
    """The primary and, if configured, a replica."""

    def __init__(
        self, primary: Database, replica: Database | None, tokens: ConsistencyTokens
    ) -> None:
        self._primary = DatabaseHealth(primary, "the primary")
        self._replica = (
            None if replica is None else DatabaseHealth(replica, "the replica", self._strayed)
        )
        self._tokens = tokens
        self._strayed_last = False
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect. With a replica, one of the two is enough.

        Raises:
            PoolTimeout: There was no connection; the text says what to check.
            ValueError: There is a replica, and the primary is the coordinator of a cluster.
        """
        if self._replica is None:
            await self._primary.database.open(timeout=_OPEN_SECONDS)
            return
        opening = {
            asyncio.ensure_future(side.database.open(timeout=_OPEN_SECONDS)): side
            for side in (self._primary, self._replica)
        }
        waiting = set(opening)
        try:
            while waiting and not any(task.done() and not task.exception() for task in opening):
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if waiting:
                _, waiting = await asyncio.wait(waiting, timeout=_OTHER_OPEN_SECONDS)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*opening, return_exceptions=True)
        failed = [task for task in opening if task.cancelled() or task.exception() is not None]
        if len(failed) == len(opening):
            failed[0].result()
        for task in failed:
            opening[task].doubt(lost=True)
        await self.keys.run(_require_one_server, timeout=_OTHER_OPEN_SECONDS, repeatable=True)
        self._watching = asyncio.create_task(self._watch(self._replica), name="watching replica")

    async def close(self) -> None:
        """Close all connections."""
        await tasks.cancel(self._watching)
        for side in (self._primary, self._replica):
            if side is not None:
                await side.close()
                await side.database.close()

    async def _watch(self, replica: DatabaseHealth) -> None:
        while True:
            if replica.in_reach and await self._strayed():
                replica.doubt(
                    lost=True,
                    why="no longer follows the primary: it was promoted, follows an old primary, "
                    "or belongs to another database, and HITHERTO_READ_DATABASE_URL must name a "
                    "standby of the primary",
                )
            await asyncio.sleep(_WATCH_SECONDS)

    async def _strayed(self) -> bool:
        """Whether the replica does not follow the primary; as last known if one does not say."""
        if self._replica is None:
            return False
        try:
            primary, replica = [
                await side.database.run(lineage_of, timeout=_LINEAGE_SECONDS, repeatable=True)
                for side in (self._primary, self._replica)
            ]
        except Exception:
            # Calls meet the same error, and report it; the watch goes on. A slow primary neither
            # readmits a strayed replica nor gets the reads of another one as well.
            return self._strayed_last
        # After a failover, both connection strings may name the same server, and a standby may
        # follow the old primary still. One that follows the new primary shows its timeline from the
        # next restart point on, if not before. What a standby shows cannot judge another standby.
        self._strayed_last = primary.database != replica.database or (
            not primary.standby and primary.timeline != replica.timeline
        )
        return self._strayed_last

    @property
    def keys(self) -> Reads:
        """Looks up API keys at the primary first: a replica may not know yet of a revocation."""
        if self._replica is None:
            return self._primary.database
        return _PrimaryFirst(self._primary, self._replica)

    def choose(self, token: str, tenant_id: str) -> Reads:
        """The database for a call that carries `token`, or none.

        Raises:
            InvalidRequest: The token belongs to another deployment or tenant.
        """
        position = self._tokens.open(token, tenant_id) if token else None
        if self._replica is None:
            return self._primary.database
        return _ReplicaFirst(self._primary, self._replica, position)


class _ReplicaFirst:
    """The reads of one call; see the module's docstring."""

    def __init__(
        self, primary: DatabaseHealth, replica: DatabaseHealth, position: Position | None
    ) -> None:
        self._primary = primary
        self._replica = replica
        self._position = position
        self._fresh: WeakSet[Connection] = WeakSet()

    async def run(self, work: Work[Result], *, timeout: float, repeatable: bool = False) -> Result:
        """See `Database.run`; after a failure, only `repeatable` work runs elsewhere."""
        left = countdown(timeout)
        may_return = True
        if self._replica.in_reach or not self._primary.in_reach:
            try:
                return await self._at_replica(work, left() * _SHARE, repeatable=repeatable)
            except _ReplicaBehind:
                pass
            except Exception as error:
                if not repeatable:
                    raise
                may_return = not _noted(self._replica, error)
        if self._primary.in_reach or not may_return:
            try:
                return await self._primary.database.run(
                    work,
                    timeout=left() * (_SHARE if may_return and self._replica.in_reach else 1),
                    repeatable=repeatable,
                )
            except Exception as error:
                _noted(self._primary, error)
                if not (repeatable and may_return):
                    raise
        try:
            return await self._at_replica(
                work, left(), repeatable=repeatable, patience=left() * _LONG_WAIT_SHARE
            )
        except _ReplicaBehind:
            raise Unavailable(
                "the primary database cannot be reached and the replica does not show the write of "
                "the consistency token yet; try again shortly, or without the token",
                reason="DATABASE_UNAVAILABLE",
                retry_after=1.0,
            ) from None

    async def _at_replica(
        self,
        work: Work[Result],
        timeout: float,
        *,
        repeatable: bool,
        patience: float | None = None,
    ) -> Result:
        """Read from the replica once it has replayed the position.

        Args:
            work: The read.
            timeout: Seconds for all of it.
            repeatable: Whether to repeat it if the standby cancelled it for replay.
            patience: Seconds to wait for the position; None for the short wait.
        """

        async def once_fresh(connection: Connection) -> Result:
            if self._position is not None and connection not in self._fresh:
                await self._wait(connection, self._position, timeout, patience)
                self._fresh.add(connection)
            return await work(connection)

        left = countdown(timeout)
        # Without a position, the work itself is run, which may be a batch.
        reading = work if self._position is None else once_fresh
        try:
            return await self._replica.database.run(reading, timeout=left(), repeatable=repeatable)
        except Exception as error:
            if not (repeatable and isinstance(translate(error), Conflict)):
                raise
        return await self._replica.database.run(reading, timeout=left(), repeatable=True)

    async def _wait(
        self, connection: Connection, position: Position, timeout: float, patience: float | None
    ) -> None:
        """Return once the server of `connection` has replayed `position`.

        Raises:
            _ReplicaBehind: It has not within the time.
        """
        worth_it = _SMALL_GAP_BYTES if patience is None else float("inf")
        if patience is None:
            patience = min(_SHORT_WAIT_SECONDS, timeout * _SHORT_WAIT_SHARE)
        left = countdown(patience)
        while (missing := await bytes_missing(connection, position)) > 0:
            if missing >= worth_it or left() <= 0:
                raise _ReplicaBehind
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


class _PrimaryFirst:
    """The primary, and the replica while the primary is unreachable."""

    def __init__(self, primary: DatabaseHealth, replica: DatabaseHealth) -> None:
        self._primary = primary
        self._replica = replica

    async def run(self, work: Work[Result], *, timeout: float, repeatable: bool = False) -> Result:
        """See `Database.run`; after a failure, only `repeatable` work runs elsewhere."""
        left = countdown(timeout)
        if self._primary.in_reach or not self._replica.in_reach:
            try:
                return await self._primary.database.run(
                    work, timeout=min(_KEY_SECONDS, left() * _SHARE), repeatable=repeatable
                )
            except Exception as error:
                _noted(self._primary, error)
                if not repeatable:
                    raise
        try:
            return await self._replica.database.run(work, timeout=left(), repeatable=repeatable)
        except Exception as error:
            _noted(self._replica, error)
            raise


def _noted(side: DatabaseHealth, error: Exception) -> bool:
    """Whether `side` is in trouble, which it records; False if its server is up and refused.

    Raises:
        Exception: `error`, if any other database would fail in the same way.
    """
    translated = translate(error)
    if isinstance(translated, Unavailable):
        side.doubt(lost=True)
    elif isinstance(translated, TooLate | Exhausted):
        side.doubt(lost=False)
    elif isinstance(translated, Conflict):
        return False
    else:
        raise error
    return True
