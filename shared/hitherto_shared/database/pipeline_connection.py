"""Connections lent by the services' pools: psycopg's, with a shorter way to Postgres.

Statements go through `Exchange`; only named cursors, notifications and what psycopg asks for itself
take psycopg's own way.

In a transaction, statements whose results are not needed at once travel with the next statement:
its BEGIN with the first one, its COMMIT with the last ones or with one that follows it, and in
between those sent with `later`. Their errors surface where they are sent, at the end of the
transaction at the latest.
"""

from __future__ import annotations

import logging
import select
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor, AsyncTransaction
from psycopg.pq import TransactionStatus
from psycopg.pq.misc import connection_summary
from psycopg.rows import TupleRow
from psycopg.sql import Composed

from hitherto_shared.database.connect import DatabaseUnreachable
from hitherto_shared.database.exchange import (
    BEGIN,
    COMMIT,
    ROLLBACK,
    BoundStatement,
    Exchange,
    Parameters,
    StatementResult,
)
from hitherto_shared.database.local_settings import read_times_as_utc
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.models import Scope

logger = logging.getLogger("hitherto.database")

Made = TypeVar("Made")
Query = str | bytes | Composed

_ON_CITUS = "SELECT 1 FROM pg_extension WHERE extname = 'citus'"
_ON_NODES = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('hitherto.users')"
_SET = "SELECT set_config(%s, %s, false)"
_MOST_WAITING = 200
"""Maximum number of deferred statements, which bounds their memory."""


class PendingStatements:
    """Statements that a read waits for; its runner sends and answers them."""

    def __init__(self, asked: list[BoundStatement]) -> None:
        self.asked = asked

    def __await__(
        self,
    ) -> Generator[PendingStatements, list[StatementResult], list[StatementResult]]:
        return (yield self)


class PipelineConnection(AsyncConnection[TupleRow]):
    """A connection in autocommit whose statements go through `Exchange`.

    Attributes:
        lent_for: The tenant whose rows it shows, as far as known.
        proven_at: When it last answered a liveness check, by the monotonic clock.
        taken_at: When it was last taken from psycopg_pool.
        ready_since: Since when it is ready to be lent.
        collecting: Collects the statements of several concurrent reads (`together`).
    """

    collecting = False

    lent_for: str | None = None
    proven_at = taken_at = ready_since = 0.0

    @classmethod
    async def connect(cls, conninfo: str = "", **kwargs: Any) -> Self:
        """See psycopg.

        Raises:
            DatabaseUnreachable: No connection could be made.
        """
        try:
            return await super().connect(conninfo, **kwargs)
        except psycopg.Error as error:
            raise DatabaseUnreachable(error) from None

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.cursor_factory = _Cursor
        self._exchange = Exchange(self)
        self._in_transaction = False
        self._waiting: list[BoundStatement] = []
        self._effects: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        """As psycopg's, without the address in memory.

        The pool logs it for every connection that it gives up, and a log counts equal lines.
        """
        return f"<{type(self).__name__} {connection_summary(self.pgconn)}>"

    def depend_on_transactions_only(self, settings: Mapping[str, str]) -> None:
        """Begin every transaction with these settings, and leave nothing in the session."""
        self._exchange.settings = dict(settings)
        read_times_as_utc(self)

    async def reach_all_nodes(self, settings: Mapping[str, str]) -> None:
        """Set this on every node of a cluster in every transaction; on one server, do nothing."""
        if await self.fetch_row(_ON_CITUS) and await self.fetch_row(_ON_NODES):
            await self.keep_setting("citus.propagate_set_commands", "local")
            # A transaction that has read shards in parallel may not change a reference table.
            await self.keep_setting("citus.multi_shard_modify_mode", "sequential")
            self._exchange.shards = dict(settings)

    @property
    def is_distributed(self) -> bool:
        """Whether the rows are on the nodes of a cluster."""
        return self._exchange.shards is not None

    def of(self, scope: Scope) -> UserRows:
        """The rows of one user."""
        return UserRows(self, scope)

    async def keep_setting(self, name: str, value: str) -> None:
        """Let a setting of Postgres have this value from now on."""
        kept = self._exchange.settings
        if kept is None and name in (self._exchange.shards or ()):
            kept = self._exchange.shards
        if kept is None:
            await self.execute(_SET, [name, value])
        else:
            kept[name] = value

    @property
    def has_news(self) -> bool:
        """Whether Postgres has sent something, or has ended; checks without waiting."""
        socket = self.pgconn.socket
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(socket, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([socket], [], [], 0)[0])

    @property
    def waits_for_us(self) -> bool:
        """Whether Postgres has answered everything, as far as can be seen, amid a transaction.

        Without an open one, the work may be done already: then the outcome is in doubt.
        """
        return self.pgconn.transaction_status == TransactionStatus.INTRANS and not self.has_news

    async def execute(  # type: ignore[override]
        self, query: Query, params: Parameters | None = None
    ) -> StatementResult:
        """See psycopg."""
        (answer,) = await self.answers([self._bound(query, params)])
        return answer

    def _bound(self, query: Query, params: Parameters | None) -> BoundStatement:
        # Not `isinstance(query, Composed)`: that is an abstract class, which takes long to ask.
        text = query if isinstance(query, str | bytes) else query.as_bytes(self)
        return BoundStatement(text, params, binary=False)

    async def fetch(
        self, make: Callable[..., Made], query: Query, params: Parameters | None = None
    ) -> list[Made]:
        """What `make` returns for each row, whose columns are its arguments, in order."""
        return [make(*row) for row in await self.fetch_rows(query, params)]

    async def fetch_one(
        self, make: Callable[..., Made], query: Query, params: Parameters | None = None
    ) -> Made | None:
        """As `fetch`, for the first row; None if there is none."""
        row = await self.fetch_row(query, params)
        return None if row is None else make(*row)

    async def fetch_rows(self, query: Query, params: Parameters | None = None) -> list[TupleRow]:
        """All rows."""
        return (await self.execute(query, params)).rows

    async def fetch_row(self, query: Query, params: Parameters | None = None) -> TupleRow | None:
        """The first row; None if there is none."""
        rows = await self.fetch_rows(query, params)
        return rows[0] if rows else None

    async def fetch_values(self, query: Query, params: Parameters | None = None) -> list[Any]:
        """The first column of each row."""
        return [row[0] for row in await self.fetch_rows(query, params)]

    async def fetch_value(self, query: Query, params: Parameters | None = None) -> Any:
        """The first column of the first row; None if there is none."""
        row = await self.fetch_row(query, params)
        return None if row is None else row[0]

    async def answers(self, asked: list[BoundStatement]) -> list[StatementResult]:
        """The answers to statements, after any deferred ones."""
        if self.collecting:
            return await PendingStatements(asked)
        waiting, self._waiting = self._waiting, []
        found = await self._exchange.ask([*waiting, *asked])
        return found[len(waiting) :]

    async def later(self, query: Query, params: Parameters) -> None:
        """Defer a statement to the next one; outside a transaction it is sent at once."""
        await self.later_for_each(query, [params])

    async def later_for_each(self, query: Query, many: Iterable[Parameters]) -> None:
        """As `later`, for each set of parameters."""
        self._waiting += [self._bound(query, params) for params in many]
        if not self._in_transaction or len(self._waiting) > _MOST_WAITING:
            await self.flush()

    async def flush(self) -> None:
        """Send the deferred statements."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            await self._exchange.ask(waiting)

    @asynccontextmanager
    async def transaction(  # type: ignore[override]
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> AsyncIterator[AsyncTransaction | None]:
        """See psycopg; takes no round trips of its own unless it is rolled back."""
        if self._in_transaction or savepoint_name or force_rollback:
            await self.flush()
            effects = len(self._effects)
            async with super().transaction(savepoint_name, force_rollback) as inner:
                if not self._in_transaction:
                    await self._exchange.set_locally()
                try:
                    yield inner
                    await self.flush()
                except BaseException:
                    self._waiting = []
                    del self._effects[effects:]
                    raise
            if force_rollback:
                del self._effects[effects:]
            return
        self._waiting = [BEGIN]
        self._in_transaction = True
        try:
            yield None
            if self._in_transaction and self._waiting != [BEGIN]:
                self._waiting.append(COMMIT)
                await self.flush()
            for effect in self._effects:
                effect()
        except BaseException:
            await self._roll_back()
            raise
        finally:
            self._waiting = []
            self._effects = []
            self._in_transaction = False

    async def commit_and_ask(self, asked: BoundStatement) -> StatementResult:
        """Commit the transaction, as its last act; the answer is that of a statement after it."""
        waiting, self._waiting = self._waiting, []
        *_, answer = await self._exchange.ask([*waiting, COMMIT, asked])
        self._in_transaction = False
        return answer

    def once_committed(self, effect: Callable[[], None]) -> None:
        """Call `effect`, which must not fail, once the transaction has committed.

        It is not called if the transaction, or the savepoint within it, is rolled back. Outside a
        transaction it is called now.
        """
        if self._in_transaction:
            self._effects.append(effect)
        else:
            effect()

    async def _roll_back(self) -> None:
        self._waiting = []
        if self.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            try:
                await self._exchange.ask([ROLLBACK])
            except psycopg.Error as error:
                logger.warning("a roll-back failed: %s", type(error).__name__)


class _Cursor(AsyncCursor[TupleRow]):
    """psycopg's own, for what psycopg asks for itself, such as the types of an extension."""

    async def execute(self, *given: Any, **options: Any) -> Any:
        if isinstance(self.connection, PipelineConnection):
            await self.connection.flush()
        return await super().execute(*given, **options)
