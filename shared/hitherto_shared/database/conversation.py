"""Sends a batch to Postgres and awaits it without a task, so that its caller may leave at any time.

A task of its own, which can be left behind, costs a short read as much as the rest of its way to
Postgres. Here the caller's own task continues the batch whenever its socket is ready, and only what
is left unfinished gets another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from psycopg import AsyncConnection, pq
from psycopg.waiting import Ready

from hitherto_shared.database.exchange import (
    FORGOTTEN,
    exchange,
    finished,
    prepared_on,
    readiness,
    talk,
)
from hitherto_shared.database.statement_batch import (
    BoundStatement,
    StatementBatch,
    StatementResult,
)
from hitherto_shared.work_record import Waiting


class BatchRead:
    """A batch of statements that only read, as the whole work of a borrower of a connection."""

    __slots__ = ("asked",)

    def __init__(self, asked: Sequence[BoundStatement]) -> None:
        self.asked = asked

    async def __call__(self, connection: AsyncConnection[Any]) -> list[StatementResult]:
        """The answers."""
        return await exchange(connection, self.asked)


async def exchange_at_once(
    connection: AsyncConnection[Any],
    asked: Sequence[BoundStatement],
    seconds: float,
    left: Callable[[Conversation], None],
) -> list[StatementResult]:
    """As `exchange`, without a task, on a connection that is used by nobody else and not pooled.

    The caller gets away as soon as its time is up or it is cancelled, whatever Postgres does.

    Args:
        connection: Outside a transaction.
        asked: The statements.
        seconds: Time limit.
        left: Takes what was left unfinished, with the connection.

    Raises:
        TimeoutError: Time is up.
        psycopg.Error: As `exchange`.
    """
    prepared = prepared_on(connection)
    end = asyncio.get_running_loop().time() + seconds
    with Waiting("sql", tuple([each.sql for each in asked])):
        try:
            batch = StatementBatch(connection, prepared, asked)
            return batch.read(await Conversation(connection, batch).results(end, left))
        except FORGOTTEN:
            prepared.forget()
        batch = StatementBatch(connection, prepared, asked)
        return batch.read(await Conversation(connection, batch).results(end, left))


class Conversation:
    """A batch on its way, which its caller may leave to somebody else at any moment."""

    __slots__ = ("_connection", "_late", "_ready", "_talk")

    def __init__(self, connection: AsyncConnection[Any], batch: StatementBatch) -> None:
        self._connection = connection
        self._talk = talk(connection.pgconn, batch)
        self._ready: asyncio.Future[Ready] | None = None
        self._late = False

    async def results(
        self, end: float, left: Callable[[Conversation], None]
    ) -> list[pq.abc.PGresult]:
        """The results, by the loop's time `end`; see `exchange_at_once`."""
        loop, pgconn = asyncio.get_running_loop(), self._connection.pgconn
        timer = loop.call_at(end, self._time_is_up)
        try:
            socket = pgconn.socket
            wanted = next(self._talk)
            while True:
                self._ready = loop.create_future()
                ready = await readiness(socket, wanted, self._ready)
                if self._late:
                    raise TimeoutError
                wanted = self._talk.send(ready)
        except StopIteration as over:
            results: list[pq.abc.PGresult] = over.value
            return results
        except (TimeoutError, asyncio.CancelledError):
            left(self)
            raise
        except Exception:
            if pgconn.pipeline_status != pq.PipelineStatus.OFF:
                await self._connection.close()
            raise
        finally:
            timer.cancel()

    async def finish(self) -> None:
        """Finish what was left."""
        await finished(self._connection, self._talk)

    def _time_is_up(self) -> None:
        self._late = True
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(Ready.NONE)
