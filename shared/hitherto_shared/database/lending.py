"""Lends connections of a psycopg_pool to one borrower at a time, without ever losing one.

psycopg_pool keeps the place of a borrower that was cancelled while waiting until it has a spare
connection, counts it against its limit, and loses a connection whose return is cancelled. Borrowers
therefore wait here, and tasks that are never cancelled talk to the pool.

The most recently used connection is lent first, because its backend process has plans and caches
ready. Idle ones are kept here for that, and return to the pool when unused for a while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine

from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from hitherto_shared import metrics
from hitherto_shared.database.faults import out_of_reach
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.shares import FairQueue, owner_at_work
from hitherto_shared.work_record import Waiting

logger = logging.getLogger("hitherto.database")

_REST_SECONDS = 30.0
"""Time for which a connection stays here unused before it returns to the pool."""
_OUT_SECONDS = 600.0
"""Age in use after which a connection returns to the pool, because it may be too old."""
_ASK_SECONDS = 5.0
"""Time limit of one request to the pool: it tries to connect only while someone asks."""
_UNDO_SECONDS = 3.0
"""Time for Postgres to end what a borrower left unfinished, before the connection is closed."""
_FEW = 0.125
"""The share of all who may wait that one tenant always has."""
_UNFINISHED = (TransactionStatus.INTRANS, TransactionStatus.INERROR)


class Lender:
    """Lends the connections of `pool`.

    Args:
        pool: Its own limits of time and of borrowers must not be reached before those given here.
        max_waiting: Maximum number of waiting borrowers. A tenant of which few wait may add one
            above it, so that the borrowers of another tenant are no reason to refuse it.
        wait_seconds: Time limit of the wait.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[PipelineConnection],
        *,
        max_waiting: int,
        wait_seconds: float,
    ) -> None:
        self._pool = pool
        self._max_waiting = max_waiting
        self._wait_seconds = wait_seconds
        self._ready: list[PipelineConnection] = []
        self._wanted: FairQueue[asyncio.Future[PipelineConnection]] = FairQueue()
        self._held = 0
        self._fetching: set[asyncio.Task[None]] = set()
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def all_lent(self) -> bool:
        """Whether all connections are lent and no further one may be opened."""
        return self._held >= self._pool.max_size and not self._ready

    async def take(self) -> PipelineConnection:
        """The most recently used connection, or the next free one: tenants and people in rounds.

        Raises:
            TooManyRequests: Too many borrowers wait already.
            PoolTimeout: None was free for `wait_seconds`.
            Unavailable: None was, because Postgres refuses connections.
            PoolClosed: The pool is closed.
        """
        if self._ready:
            return self._ready.pop()
        owner = owner_at_work()
        full = len(self._wanted) >= self._max_waiting
        if full and self._wanted.waiting(owner.tenant_id) >= self._max_waiting * _FEW:
            metrics.CONNECTIONS_REFUSED.inc()
            raise TooManyRequests(f"{len(self._wanted)} calls already wait for a connection")
        wanted: asyncio.Future[PipelineConnection] = asyncio.get_running_loop().create_future()
        self._wanted.put(owner, wanted)
        self._fetch()
        refusals = self._refusals
        try:
            with metrics.CONNECTION_WAITS.time(), Waiting("connection", self._pool.name):
                async with asyncio.timeout(self._wait_seconds):
                    return await wanted
        except BaseException as error:
            if wanted.done() and not wanted.cancelled() and wanted.exception() is None:
                # It arrived just when the borrower was cancelled.
                self.give_back(wanted.result())
            else:
                self._wanted.drop(owner, wanted)
            if isinstance(error, TimeoutError):
                metrics.CONNECTIONS_REFUSED.inc()
                if self._refusals > refusals and not self.all_lent:
                    raise out_of_reach() from None
                waited = f"{self._wait_seconds:.2f} s"
                raise PoolTimeout(f"no connection became free within {waited}") from None
            raise

    @property
    def _refusals(self) -> int:
        """The number of failed attempts to connect so far."""
        return self._pool.get_stats().get("connections_errors", 0)

    def give_back(self, connection: PipelineConnection) -> None:
        """Lend it to the borrower whose turn it is, or keep it ready; never fails or blocks."""
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

    def discard(self, connection: PipelineConnection) -> None:
        """Let the pool check a connection: it opens another one if this one has ended."""
        self._begin(self._returning, self._return(connection))

    async def rest(self) -> None:
        """Return connections that were unused for a while, the least recently used ones.

        Never ends.
        """
        while True:
            await asyncio.sleep(_REST_SECONDS)
            long_ago = time.monotonic() - _REST_SECONDS
            while self._ready and self._ready[0].ready_since < long_ago:
                self.discard(self._ready.pop(0))

    async def close(self) -> None:
        """Return everything, and refuse waiting borrowers."""
        for task in self._fetching:
            task.cancel()
        self._refuse(PoolClosed("the pool is closed"))
        while self._ready:
            self.discard(self._ready.pop())
        if tasks := self._fetching | self._returning:
            await asyncio.wait(tasks, timeout=_UNDO_SECONDS + 1.0)

    def _fetch(self) -> None:
        """Request as many connections from the pool as are needed and available."""
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

    async def _return(self, connection: PipelineConnection) -> None:
        try:
            # The pool would wait for Postgres without end.
            if connection.pgconn.transaction_status in _UNFINISHED:
                try:
                    async with asyncio.timeout(_UNDO_SECONDS):
                        await connection.rollback()
                except Exception as error:
                    logger.info("closing a connection: %s", type(error).__name__)
                    await connection.close()
            await self._pool.putconn(connection)
        finally:
            self._held -= 1
            self._fetch()

    def _next(self) -> asyncio.Future[PipelineConnection] | None:
        """The borrower whose turn it is, skipping cancelled ones."""
        while (called := self._wanted.pop()) is not None:
            if not called[1].done():
                return called[1]
        return None

    def _refuse(self, error: Exception) -> None:
        while (wanted := self._next()) is not None:
            wanted.set_exception(error)

    def _begin(self, kept: set[asyncio.Task[None]], work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        kept.add(task)
        task.add_done_callback(kept.discard)
