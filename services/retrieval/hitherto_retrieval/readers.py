"""Chooses the database of a read: the replica if it is suitable, else the primary.

The rule for a call, with its share of the time that is left:

1. The replica, unless it is out of reach. With a consistency token it is first asked whether it has
   replayed that position. What it is about to replay is waited for (a small gap, for a twentieth of
   the time and 20 ms at most). Any more, or another timeline or database, and the primary is the
   quicker way.
2. The primary, when the replica is behind, lost, frozen, too busy or refuses.
3. The replica again, when the primary is out of reach as well: what is behind is now waited for.

A query that the standby ended because it stood in the way of replay is repeated there once. Every
step asks for itself on the very connection it reads from, so that the name of the replica may stand
for several servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakSet

from hitherto_retrieval.database_health import DatabaseHealth
from hitherto_shared.consistency import ConsistencyTokens, Position, bytes_missing
from hitherto_shared.database.faults import translate
from hitherto_shared.database.pool import Connection, Database, Reads
from hitherto_shared.errors import Conflict, Exhausted, HithertoError, TooLate, Unavailable

_SHARE = 0.5
"""What a database may take of the time that is left while another one could still answer."""
_KEY_SECONDS = 1.0
"""And at most so long for looking up an API key, which takes a fraction of a millisecond."""

_SMALL_GAP_BYTES = 1 << 20
_SHORT_WAIT_SECONDS = 0.02
_SHORT_WAIT_SHARE = 0.05
_LONG_WAIT_SHARE = 0.8
_LOOK_AGAIN_SECONDS = 0.005
_OPEN_SECONDS = 30.0
_OTHER_OPEN_SECONDS = 2.0

Result = TypeVar("Result")
Work = Callable[[Connection], Awaitable[Result]]


class _Behind(Exception):
    """The replica does not show what the caller wrote."""


class Readers:
    """The primary and perhaps a replica."""

    def __init__(
        self, primary: Database, replica: Database | None, tokens: ConsistencyTokens
    ) -> None:
        self._primary = DatabaseHealth(primary, "the primary")
        self._replica = None if replica is None else DatabaseHealth(replica, "the replica")
        self._tokens = tokens

    async def open(self) -> None:
        """Connect. With a replica, one of the two that answers is enough.

        Raises:
            PoolTimeout: There was no connection; the text says what to check.
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

    async def close(self) -> None:
        """Give up all connections."""
        for side in (self._primary, self._replica):
            if side is not None:
                await side.close()
                await side.database.close()

    @property
    def keys(self) -> Reads:
        """Where API keys are looked up: a replica may not know yet that one was revoked."""
        if self._replica is None:
            return self._primary.database
        return _PrimaryFirst(self._primary, self._replica)

    async def choose(self, token: str, tenant_id: str, *, timeout: float) -> Reads:
        """Where a call that carries `token`, or none, reads; each read is bounded by itself.

        Raises:
            InvalidRequest: The token is not of this deployment and tenant.
        """
        del timeout
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
        """As `Database.run`; only what is `repeatable` is done elsewhere after a failure."""
        left = _countdown(timeout)
        may_return = True
        if self._replica.in_reach or not self._primary.in_reach:
            try:
                return await self._at_replica(work, left() * _SHARE, repeatable=repeatable)
            except _Behind:
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
        except _Behind:
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
        """Read from the replica once it shows the position.

        Args:
            work: What to do there.
            timeout: Seconds for all of it.
            repeatable: Whether to do it again when the standby ended it for the sake of replay.
            patience: Seconds to wait for the position; None for the short wait.
        """

        async def once_fresh(connection: Connection) -> Result:
            if self._position is not None and connection not in self._fresh:
                await self._wait(connection, self._position, timeout, patience)
                self._fresh.add(connection)
            return await work(connection)

        left = _countdown(timeout)
        try:
            return await self._replica.database.run(
                once_fresh, timeout=left(), repeatable=repeatable
            )
        except Exception as error:
            if not (repeatable and isinstance(_told(error), Conflict)):
                raise
        return await self._replica.database.run(once_fresh, timeout=left(), repeatable=True)

    async def _wait(
        self, connection: Connection, position: Position, timeout: float, patience: float | None
    ) -> None:
        """Return when the server behind `connection` shows `position`; else raise `_Behind`."""
        worth_it = _SMALL_GAP_BYTES if patience is None else float("inf")
        if patience is None:
            patience = min(_SHORT_WAIT_SECONDS, timeout * _SHORT_WAIT_SHARE)
        left = _countdown(patience)
        while (missing := await bytes_missing(connection, position)) > 0:
            if missing >= worth_it or left() <= 0:
                raise _Behind
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


class _PrimaryFirst:
    """The primary, and the replica where the primary is out of reach."""

    def __init__(self, primary: DatabaseHealth, replica: DatabaseHealth) -> None:
        self._primary = primary
        self._replica = replica

    async def run(self, work: Work[Result], *, timeout: float, repeatable: bool = False) -> Result:
        """As `Database.run`; only what is `repeatable` is done elsewhere after a failure."""
        left = _countdown(timeout)
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


def _countdown(seconds: float) -> Callable[[], float]:
    """What is left of `seconds` from now on, never less than 0."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    return lambda: max(0.0, end - clock())


def _told(error: Exception) -> HithertoError | None:
    return error if isinstance(error, HithertoError) else translate(error)


def _noted(side: DatabaseHealth, error: Exception) -> bool:
    """Whether `side` is in trouble, which it is told; False when its server lives and declined.

    Raises:
        Exception: `error`, where any other database would say the same.
    """
    told = _told(error)
    if isinstance(told, Unavailable):
        side.doubt(lost=True)
    elif isinstance(told, TooLate | Exhausted):
        side.doubt(lost=False)
    elif isinstance(told, Conflict):
        return False
    else:
        raise error
    return True
