"""Connections of one role, borrowed for one piece of work at a time and limited in time.

A frozen Postgres ignores `statement_timeout`, so `run` limits each piece of work itself. Its caller
gets an answer in time; the work is abandoned (`abandoned`). Nothing here closes a connection that a
task waits on: libuv ends the process when a descriptor that it watches is closed.

A connection is checked before it is lent, without sending anything: the socket of an idle
connection has nothing to read unless Postgres ended it or sent a notice, and only then is Postgres
asked. Once a connection was lost unnoticed, all older ones are checked as well, each once.

A connection of a role under row-level security is lent for one tenant, that of the current work
(`tenancy`). Through a pooler, the tenant is set in every transaction instead (`local_settings`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeVar

import psycopg
from psycopg import errors
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from hitherto_shared import metrics
from hitherto_shared.database.abandoned import MOMENT_SECONDS, AbandonedWork
from hitherto_shared.database.connect import (
    SESSION_SETTINGS,
    DatabaseUnreachable,
    Pooler,
    Role,
    connected,
    settings_since,
    with_role,
)
from hitherto_shared.database.faults import is_lost_connection, no_answer_in_time
from hitherto_shared.database.lending import Lender
from hitherto_shared.database.pipeline_connection import PipelineConnection
from hitherto_shared.database.tenancy import NOBODY, tenant_at_work
from hitherto_shared.errors import TooLate, Unavailable, WorkTooLong

logger = logging.getLogger("hitherto.database")

_WALLED: frozenset[Role] = frozenset({"hitherto_read", "hitherto_write", "hitherto_removal"})
"""The roles that see the rows of one tenant at a time."""
_TENANT = "hitherto.tenant_id"

_NOTICE_ABANDONED = ("client_connection_check_interval", "1s")
"""Lets Postgres end a statement whose connection was cut, if its platform can detect that."""
_TRY_OUT = "SELECT set_config(%s, %s, true)"

# The pool doubles the pauses between its attempts to connect, and the next borrower starts again
# once it has given up: a short time limit keeps the pauses short when Postgres is back.
_RECONNECT_SECONDS = 5.0
_CONFIGURE_SECONDS = 5.0
"""Time limit for preparing a new connection; a worker of the pool waits for it."""

WAIT_SECONDS = 3.0
"""Longest wait for a connection, unless a pool has another."""

_IDLE_SECONDS = 300.0
"""Interval at which psycopg_pool closes returned connections that it did not lend."""

Connection = PipelineConnection
Result = TypeVar("Result")


def countdown(seconds: float) -> Callable[[], float]:
    """What is left of `seconds` from now on, at least 0: the time limit of each piece of work."""
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    return lambda: max(0.0, end - clock())


class Reads(Protocol):
    """A place to read from: a database, or several that replace each other."""

    async def run(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        *,
        timeout: float,
        repeatable: bool = False,
    ) -> Result:
        """As `Database.run`."""
        ...


class Database:
    """A pool of connections that all have one role.

    Every connection is in autocommit: a single statement is its own transaction, and several belong
    in `async with connection.transaction()`.
    """

    def __init__(
        self,
        conninfo: str,
        role: Role,
        *,
        application: str,
        min_size: int = 1,
        max_size: int = 8,
        max_waiting: int = 256,
        wait_seconds: float | None = None,
        configure: Callable[[PipelineConnection], Awaitable[None]] | None = None,
        pooler: Pooler = "none",
    ) -> None:
        self.role = role
        self.conninfo = with_role(conninfo, role, application=application, pooler=pooler)
        self._pooler = pooler
        self._configure = configure
        self._abandoned = AbandonedWork()
        self._resting: asyncio.Task[None] | None = None
        self._lost_at = 0.0
        self._pool: AsyncConnectionPool[PipelineConnection] = AsyncConnectionPool(
            self.conninfo,
            connection_class=PipelineConnection,
            min_size=min_size,
            max_size=max_size,
            max_idle=_IDLE_SECONDS,
            reconnect_timeout=_RECONNECT_SECONDS,
            # `exchange` prepares statements, which a second mechanism would disturb.
            kwargs={"autocommit": True, "prepare_threshold": None},
            configure=self._prepare,
            name=role,
            open=False,
        )
        wait = WAIT_SECONDS if wait_seconds is None else wait_seconds
        self._lender = Lender(self._pool, max_waiting=max_waiting, wait_seconds=wait)
        self._lent = metrics.CONNECTIONS_LENT.labels(role)
        self._limit = metrics.CONNECTIONS_LIMIT.labels(role)
        self._most = max_size

    async def open(self, *, timeout: float = 30.0) -> None:
        """Connect, waiting at most `timeout` seconds for a first connection.

        Raises:
            PoolTimeout: There was none; the text says what to check.
        """
        await self.open_later()
        fewest, most = self._pool.min_size, self._pool.max_size
        # A pool with room opens another connection for a borrower that waits for the first.
        await self._pool.resize(fewest, fewest)
        give_up = time.monotonic() + timeout
        while True:
            try:
                # Only a borrower makes the pool try again once it has given up.
                async with self._pool.connection(_RECONNECT_SECONDS):
                    break
            except PoolTimeout:
                if time.monotonic() > give_up:
                    raise PoolTimeout(
                        f"no connection as {self.role} for {timeout:.0f} s: {await self._why()}"
                    ) from None
        await self._pool.resize(fewest, most)

    async def _why(self) -> str:
        """Why no connection can be made."""
        try:
            (await asyncio.to_thread(connected, self.conninfo)).close()
        except DatabaseUnreachable as error:
            return str(error)
        return "the database takes connections again: start again"

    async def open_later(self) -> None:
        """Start connecting without waiting: for a database that may be down for now."""
        await self._pool.open()
        self._limit.inc(self._most)
        self._resting = asyncio.create_task(self._lender.rest(), name=f"rest-{self.role}")

    async def answers(self, *, timeout: float) -> bool:
        """Whether Postgres answers within `timeout` seconds."""
        try:
            return await self.run(self._answers, timeout=timeout)
        except (psycopg.Error, Unavailable, TooLate):
            return False

    async def close(self) -> None:
        """Close all connections; cancelled work gets a moment to notice."""
        await self._abandoned.end()
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
            self._limit.dec(self._most)
        await self._lender.close()
        await self._pool.close(timeout=5.0)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Borrow a connection without a time limit: for background work with its own limits."""
        connection = await self._living()
        self._lent.inc()
        try:
            tenant_id = tenant_at_work()
            if connection.lent_for != tenant_id and self.role in _WALLED:
                # After a cancellation half-way, it is set again the next time.
                connection.lent_for = None
                await connection.keep_setting(_TENANT, tenant_id)
                connection.lent_for = tenant_id
            yield connection
        except Exception as error:
            if is_lost_connection(error):
                self._lost_at = time.monotonic()
            raise
        finally:
            self._lent.dec()
            self._lender.give_back(connection)

    async def _living(self) -> PipelineConnection:
        """A connection that was alive a moment ago; dead ones on the way are replaced.

        The pool's own check would make the second borrower of a dead connection wait a second.
        """
        while True:
            connection = await self._lender.take()
            try:
                if self._untroubled(connection) or await self._answers(connection):
                    return connection
            except BaseException:
                self._lender.discard(connection)
                raise
            self._lender.discard(connection)

    def _untroubled(self, connection: PipelineConnection) -> bool:
        """Whether there is no sign that this idle connection has ended."""
        return (
            not connection.closed
            and connection.proven_at >= self._lost_at
            and not connection.has_news
        )

    async def _answers(self, connection: Connection) -> bool:
        try:
            await AsyncConnectionPool.check_connection(connection)
        except psycopg.Error:
            return False
        connection.proven_at = time.monotonic()
        return True

    async def transact(
        self, work: Callable[[Connection], Awaitable[Result]], *, timeout: float
    ) -> Result:
        """`run` the work in one transaction of its own."""

        async def whole(connection: Connection) -> Result:
            async with connection.transaction():
                return await work(connection)

        return await self.run(whole, timeout=timeout)

    async def run(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        *,
        timeout: float,
        repeatable: bool = False,
    ) -> Result:
        """Run `work` on a borrowed connection and return within `timeout` seconds.

        Args:
            work: The work. It must not suppress cancellation.
            timeout: Seconds until the caller gets an answer, whatever Postgres does.
            repeatable: Whether the work only reads, so that a lost connection is replaced once.

        Raises:
            PoolTimeout: All connections stayed busy for `wait_seconds`.
            Unavailable: Postgres refuses connections.
            WorkTooLong: Time is up, and Postgres was waiting for `work` amid a transaction; nothing
                was committed.
            TooLate: Time is up. Whether a write was committed is then unknown.
        """
        lent: PipelineConnection | None = None
        given_up = too_long = ended = False
        loop = asyncio.get_running_loop()
        over = loop.create_future()

        def end_wait() -> None:
            if not over.done():
                over.set_result(None)

        async def attempts() -> Result:
            nonlocal lent
            repeats = repeatable
            while True:
                try:
                    async with self.connection() as connection:
                        lent = connection
                        result = await work(connection)
                    # The caller runs next, a round of the loop before a waiter for this task would.
                    end_wait()
                    return result
                except PoolTimeout:
                    # We are too busy only if all connections are taken. Otherwise Postgres neither
                    # accepts nor refuses the next connection: `timeout` ends that.
                    if self._lender.all_lent:
                        raise
                except Exception as error:
                    if given_up or not (repeats and is_lost_connection(error)):
                        raise
                    logger.info("connection lost during a read; repeating it once")
                    repeats, lent = False, None

        task = loop.create_task(attempts())
        task.add_done_callback(lambda _: end_wait())
        timer = loop.call_later(max(timeout, 0.0), end_wait)
        try:
            await over
            ended = task.done()
        finally:
            timer.cancel()
            if not ended:
                given_up = True
                too_long = lent is not None and lent.waits_for_us
                after = 0.0 if lent is None or too_long else MOMENT_SECONDS
                self._abandoned.leave(task, after=after)
        if too_long:
            raise WorkTooLong("the work of a transaction", timeout)
        if not ended:
            raise no_answer_in_time()
        return task.result()

    async def _prepare(self, connection: PipelineConnection) -> None:
        """Prepare a new connection."""
        try:
            async with asyncio.timeout(_CONFIGURE_SECONDS):
                with suppress(errors.InvalidParameterValue):
                    if self._pooler == "transaction":
                        connection.depend_on_transactions_only(SESSION_SETTINGS)
                        await connection.execute(_TRY_OUT, _NOTICE_ABANDONED)
                    await connection.keep_setting(*_NOTICE_ABANDONED)
                if self._pooler == "none":
                    await connection.reach_all_nodes(
                        {_TENANT: NOBODY, "lock_timeout": SESSION_SETTINGS["lock_timeout"]}
                    )
                for setting in settings_since(connection.info.server_version).items():
                    await connection.keep_setting(*setting)
                if self._configure is not None:
                    await self._configure(connection)
        except BaseException:
            await connection.close()
            raise
        connection.proven_at = time.monotonic()
