"""Connections of a psycopg_pool lent to one borrower at a time, so that none is ever lost.

Borrowers are cut off at any moment. psycopg_pool keeps the place of a waiting borrower who was cut
off until it has a connection to spare, counts it against its limit, and loses a connection whose
return is cut off. So borrowers wait here, and what talks to the pool are tasks of this module that
nobody cuts off: they fetch connections for those who wait, and return what the pool has to look
after. The pool makes and ends connections; it never has more borrowers than connections.

The connection used last is lent first, since the process behind it has its plans and caches at
hand. What is idle lies here for that, and goes back to the pool when it has not been used for a
while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine

from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from hitherto_shared import metrics
from hitherto_shared.database.lean import LeanConnection

logger = logging.getLogger("hitherto.database")

_REST_SECONDS = 30.0
"""How long a connection lies ready unused before the pool has it back."""
_OUT_SECONDS = 600.0
"""How long the pool goes without one that is in use, which may be too old by then."""
_ASK_SECONDS = 5.0
"""How long the pool is asked for a connection at a time: only who asks makes it try to connect."""
_UNDO_SECONDS = 3.0
"""How long Postgres has to end what a borrower left unfinished, before the connection is closed."""
_UNFINISHED = (TransactionStatus.INTRANS, TransactionStatus.INERROR)


class Lender:
    """Lends the connections of `pool`.

    Args:
        pool: Its own limits of time and of borrowers must not be reached before those given here.
        max_waiting: How many may wait for a connection at once.
        wait_seconds: For how long.
    """

    def __init__(
        self, pool: AsyncConnectionPool[LeanConnection], *, max_waiting: int, wait_seconds: float
    ) -> None:
        self._pool = pool
        self._max_waiting = max_waiting
        self._wait_seconds = wait_seconds
        self._ready: list[LeanConnection] = []
        self._wanted: deque[asyncio.Future[LeanConnection]] = deque()
        self._held = 0
        self._fetching: set[asyncio.Task[None]] = set()
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def all_lent(self) -> bool:
        """Whether there is no connection that is not lent, and no room for another one."""
        return self._held >= self._pool.max_size and not self._ready

    async def take(self) -> LeanConnection:
        """The connection used last, or the next one that is free, in the order of asking.

        Raises:
            TooManyRequests: Too many wait already.
            PoolTimeout: None was free for `wait_seconds`.
            PoolClosed: There will be none any more.
        """
        if self._ready:
            return self._ready.pop()
        if len(self._wanted) >= self._max_waiting:
            metrics.CONNECTIONS_REFUSED.inc()
            raise TooManyRequests(f"{len(self._wanted)} calls already wait for a connection")
        wanted: asyncio.Future[LeanConnection] = asyncio.get_running_loop().create_future()
        self._wanted.append(wanted)
        self._fetch()
        try:
            with metrics.CONNECTION_WAITS.time():
                async with asyncio.timeout(self._wait_seconds):
                    return await wanted
        except BaseException as error:
            if wanted.done() and not wanted.cancelled() and wanted.exception() is None:
                # It came at the moment at which the borrower was cut off.
                self.give_back(wanted.result())
            elif wanted in self._wanted:
                self._wanted.remove(wanted)
            if isinstance(error, TimeoutError):
                metrics.CONNECTIONS_REFUSED.inc()
                waited = f"{self._wait_seconds:.2f} s"
                raise PoolTimeout(f"no connection became free within {waited}") from None
            raise

    def give_back(self, connection: LeanConnection) -> None:
        """Lend it to who waits longest, or keep it ready; it cannot fail and is not waited for."""
        now = time.monotonic()
        if (
            self._pool.closed
            or connection.pgconn.transaction_status != TransactionStatus.IDLE
            or now > connection.taken_at + _OUT_SECONDS
        ):
            self.discard(connection)
        elif (wanted := self._next()) is not None:
            wanted.set_result(connection)
        else:
            connection.ready_since = now
            self._ready.append(connection)

    def discard(self, connection: LeanConnection) -> None:
        """Let the pool look after a connection: it makes another one if this one has ended."""
        self._begin(self._returning, self._return(connection))

    async def rest(self) -> None:
        """Return what was not used for a while, which lies below what was; never ends."""
        while True:
            await asyncio.sleep(_REST_SECONDS)
            long_ago = time.monotonic() - _REST_SECONDS
            while self._ready and self._ready[0].ready_since < long_ago:
                self.discard(self._ready.pop(0))

    async def close(self) -> None:
        """Return everything, and refuse those who wait."""
        for task in self._fetching:
            task.cancel()
        self._refuse(PoolClosed("the pool is closed"))
        while self._ready:
            self.discard(self._ready.pop())
        if tasks := self._fetching | self._returning:
            await asyncio.wait(tasks, timeout=_UNDO_SECONDS + 1.0)

    def _fetch(self) -> None:
        """Ask the pool for as many connections as are waited for and can be had."""
        possible = min(len(self._wanted), self._pool.max_size - self._held)
        under_way = sum(not task.done() for task in self._fetching)
        for _ in range(possible - under_way):
            self._begin(self._fetching, self._fetch_one())

    async def _fetch_one(self) -> None:
        while self._wanted:
            try:
                connection = await self._pool.getconn(_ASK_SECONDS)
            except PoolTimeout:
                continue
            except PoolClosed as error:
                self._refuse(error)
                return
            self._held += 1
            connection.taken_at = time.monotonic()
            self.give_back(connection)
            return

    async def _return(self, connection: LeanConnection) -> None:
        try:
            # The pool would wait for Postgres without end.
            if connection.pgconn.transaction_status in _UNFINISHED:
                try:
                    async with asyncio.timeout(_UNDO_SECONDS):
                        await connection.rollback()
                except Exception as error:
                    logger.info("a connection is closed: %s", type(error).__name__)
                    await connection.close()
            await self._pool.putconn(connection)
        finally:
            self._held -= 1
            self._fetch()

    def _next(self) -> asyncio.Future[LeanConnection] | None:
        """Who waits longest, without those who were cut off a moment ago."""
        while self._wanted:
            wanted = self._wanted.popleft()
            if not wanted.done():
                return wanted
        return None

    def _refuse(self, error: Exception) -> None:
        while (wanted := self._next()) is not None:
            wanted.set_exception(error)

    def _begin(self, kept: set[asyncio.Task[None]], work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        kept.add(task)
        task.add_done_callback(kept.discard)
