"""Sends statements to Postgres and returns their answers in one round trip, over libpq directly.

All statements of a batch are put into libpq's buffer, sent together and awaited once: five of them
take a third of the CPU of a psycopg pipeline. psycopg converts values and rows, and waits.

Outside a transaction, a batch is one: a failure undoes the statements before it. A statement is
prepared at its first use, and identified by its text and the types of its parameters from then on.
Connections used in this way must not prepare anything else (`prepare_threshold=None`): after a
roll-back, psycopg drops all prepared statements if it has some of its own.

Through a pooler (`Exchange.settings`), nothing is prepared for longer than a round trip. On a
cluster (`Exchange.shards`), a batch outside a transaction becomes one in so many words, because
only that sets something on every node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import takewhile
from typing import Any

import psycopg
from psycopg import AsyncConnection, errors, pq
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.waiting import Ready, Wait

from hitherto_shared.database.fragments import expanded
from hitherto_shared.database.local_settings import SET_LOCAL, opens_transaction, set_on_shards
from hitherto_shared.work_record import Waiting

Parameters = Mapping[str, Any] | Sequence[Any]
Row = tuple[Any, ...]

MOST_PREPARED = 250
"""Number of prepared statements of a connection above which all of them are dropped."""
_FORGOTTEN = (errors.InvalidSqlStatementName, errors.FeatureNotSupported)
"""The errors of a prepared statement that was dropped, or whose tables were altered since."""
_PLACEHOLDER = re.compile(rb"%(?:(?:\((\w+)\))?([sbt])|%)")
_FORMS = {b"s": PyFormat.AUTO, b"b": PyFormat.BINARY, b"t": PyFormat.TEXT}
_ANSWERED = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)

_Key = tuple[bytes, tuple[int, ...]]
"""A statement, and the types of its parameters."""
_Numbered = tuple[bytes, Sequence[str | int], Sequence[PyFormat]]
"""A statement with Postgres' own placeholders; the key and the format of each."""


@dataclass(slots=True)
class BoundStatement:
    """A statement and its parameters: `%(name)s` of a mapping or `%s` of a sequence.

    As in psycopg, `b` in place of `s` sends a parameter in binary form and `t` as text.

    Attributes:
        parameters: The values of its placeholders; None: it has none, and `%` is a percent sign.
        binary: Whether rows come in Postgres' binary form, which is parsed faster.
        prepared: Whether it is kept for its next use; its text has no values in it.
    """

    sql: str | bytes
    parameters: Parameters | None = ()
    binary: bool = True
    prepared: bool = True


BEGIN, COMMIT, ROLLBACK = (
    BoundStatement("BEGIN"),
    BoundStatement("COMMIT"),
    BoundStatement("ROLLBACK"),
)


class StatementResult:
    """The rows of the answer to a statement.

    `rowcount` says how many rows it returned or changed; -1 if that is not known.
    """

    __slots__ = ("_result", "rowcount", "rows")

    def __init__(self, rows: list[Row], rowcount: int, result: pq.abc.PGresult) -> None:
        self.rows = rows
        self.rowcount = rowcount
        self._result = result

    def dicts(self) -> list[dict[str, Any]]:
        """The rows by the names of their columns."""
        fields = range(self._result.nfields)
        names = [(self._result.fname(field) or b"").decode() for field in fields]
        return [dict(zip(names, row, strict=True)) for row in self.rows]


class Exchange:
    """Sends the statements of one connection, and knows which of them are prepared.

    Attributes:
        settings: What each transaction sets, of a connection on which nothing stays prepared; None:
            the settings of the session apply.
        shards: What each transaction sets on the nodes of a cluster; None: there is one server.

    Args:
        connection: In autocommit. Adapters of a type are registered before its first use.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.settings: dict[str, str] | None = None
        self.shards: dict[str, str] | None = None
        self._connection = connection
        self._transformer = Transformer(connection)
        self._names: dict[_Key, bytes] = {}
        self._made = 0

    async def ask(self, asked: Sequence[BoundStatement]) -> list[StatementResult]:
        """The answers to statements, in order; raises the error of the first that failed."""
        with Waiting("sql", tuple([each.sql for each in asked])):
            async with self._connection.lock:
                try:
                    return await self._once(asked)
                except _FORGOTTEN:
                    # Everything must be prepared again; within a transaction it is too late.
                    self._names.clear()
                    if not self._idle:
                        raise
                return await self._once(asked)

    async def set_locally(self) -> None:
        """Make the settings of a transaction in one that something else has begun."""
        if setting := self._setting():
            await self.ask(setting)

    def _setting(self) -> list[BoundStatement]:
        """What each transaction begins with."""
        if self.settings is not None:
            names, values = list(self.settings), list(self.settings.values())
            return [BoundStatement(SET_LOCAL, {"names": names, "values": values})]
        return [
            BoundStatement(each, None, prepared=False) for each in set_on_shards(self.shards or {})
        ]

    @property
    def _idle(self) -> bool:
        return self._connection.pgconn.transaction_status == pq.TransactionStatus.IDLE

    async def _once(self, asked: Sequence[BoundStatement]) -> list[StatementResult]:
        before, after = self._added(asked)
        if not before and not after:
            return await self._sent(asked, False)
        place = sum(1 for _ in takewhile(lambda each: opens_transaction(each.sql), asked))
        answers = await self._sent([*asked[:place], *before, *asked[place:], *after], bool(after))
        return answers[:place] + answers[place + len(before) : len(answers) - len(after)]

    def _added(
        self, asked: Sequence[BoundStatement]
    ) -> tuple[Sequence[BoundStatement], Sequence[BoundStatement]]:
        """What is sent before these statements, once they have opened a transaction, and after."""
        if not self._idle or not (setting := self._setting()):
            return (), ()
        if self.settings is not None or opens_transaction(asked[0].sql):
            return setting, ()
        return [BEGIN, *setting], [COMMIT]

    async def _sent(self, asked: Sequence[BoundStatement], whole: bool) -> list[StatementResult]:
        """Send statements; those that are a whole transaction are rolled back if one fails."""
        # Values that cannot be converted fail before anything is sent.
        batch = _Batch(self._connection.pgconn)
        for each in asked:
            self._add(batch, each)
        if len(self._names) > MOST_PREPARED:
            # After the statements: before them, it would start the transaction that they start.
            batch.add(partial(batch.pgconn.send_query_params, b"DEALLOCATE ALL", None), self._drop)
        results = await self._talked(batch)
        try:
            return self._read(batch, results)
        except psycopg.Error:
            if whole and not self._idle:
                undoing = _Batch(self._connection.pgconn)
                self._add(undoing, ROLLBACK)
                await self._talked(undoing)
            raise

    async def _talked(self, batch: _Batch) -> list[pq.abc.PGresult]:
        try:
            return await self._connection.wait(batch.talk())
        finally:
            # Cancelled in between: the state of the protocol is unknown.
            if batch.pgconn.pipeline_status != pq.PipelineStatus.OFF:
                await self._connection.close()

    def _add(self, batch: _Batch, asked: BoundStatement) -> None:
        if not asked.prepared:
            batch.add(partial(batch.pgconn.send_query_params, _bytes(asked.sql), None))
            return
        given: Any = asked.parameters
        found: _Numbered = (_bytes(asked.sql), (), ()) if given is None else _numbered(asked.sql)
        text, keys, forms = found
        values = [given[key] for key in keys]
        dumped = self._transformer.dump_sequence(values, forms)
        name = self._prepared(batch, (text, self._transformer.types or ()))
        send = batch.pgconn.send_query_prepared
        form = pq.Format.BINARY if asked.binary else pq.Format.TEXT
        batch.add(partial(send, name, dumped, self._transformer.formats, form))

    def _prepared(self, batch: _Batch, key: _Key) -> bytes:
        """The name of a statement, which is prepared before unless it is."""
        name = self._names.get(key) or batch.names.get(key)
        if name is not None:
            return name
        if self.settings is None:
            self._made += 1
            name = b"hitherto_%d" % self._made
            batch.names[key] = name
        else:
            # The nameless statement is gone once another takes its place. The same statement many
            # times over is still parsed once.
            name = b""
            batch.names = {key: name}
        batch.add(partial(batch.pgconn.send_prepare, name, *key), partial(self._keep, key, name))
        return name

    def _keep(self, key: _Key, name: bytes) -> None:
        if name:
            self._names[key] = name

    def _drop(self) -> None:
        self._names.clear()

    def _read(self, batch: _Batch, results: Sequence[pq.abc.PGresult]) -> list[StatementResult]:
        answers: list[StatementResult] = []
        # Outside a transaction, Postgres commits once all statements are answered; if that fails,
        # the error is one more result.
        for done, result in zip([*batch.done, None], results, strict=False):
            if result.status not in _ANSWERED:
                raise errors.error_from_result(result, encoding=self._connection.info.encoding)
            if done is None:
                answers.append(self._answer(result))
        return answers

    def _answer(self, result: pq.abc.PGresult) -> StatementResult:
        if result.status != pq.ExecStatus.TUPLES_OK:
            changed = result.command_tuples
            return StatementResult([], -1 if changed is None else changed, result)
        self._transformer.set_pgresult(result)
        count = result.ntuples
        return StatementResult(self._transformer.load_rows(0, count, tuple), count, result)


class _Batch:
    """Calls of libpq, each of which puts something into its buffer and has one result.

    Attributes:
        done: For each call, what its success means; None: it is a statement, which has an answer.
        names: The statements that it prepares, by name.
    """

    def __init__(self, pgconn: pq.abc.PGconn) -> None:
        self.pgconn = pgconn
        self.done: list[Callable[[], None] | None] = []
        self.names: dict[_Key, bytes] = {}
        self._calls: list[partial[None]] = []

    def add(self, call: partial[None], done: Callable[[], None] | None = None) -> None:
        """Add a call."""
        self._calls.append(call)
        self.done.append(done)

    def talk(self) -> PQGen[list[pq.abc.PGresult]]:
        """Make all calls, send them together, and yield until all results are there.

        After a cancellation it runs to its end as well, and its result is discarded. Who goes on
        with it where another one stopped sends None first.
        """
        pgconn = self.pgconn
        pgconn.enter_pipeline_mode()
        for call in self._calls:
            call()
        pgconn.pipeline_sync()
        while pgconn.flush():
            # Postgres may have to deliver answers before it accepts more.
            if ((yield Wait.RW) or 0) & Ready.R:
                pgconn.consume_input()
        results: list[pq.abc.PGresult] = []
        while True:
            while pgconn.is_busy():
                while not (yield Wait.R):
                    pass
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                break
            results.append(result)
        pgconn.exit_pipeline_mode()
        # What Postgres has prepared and dropped counts even if nobody reads the answers.
        for done, result in zip(self.done, results, strict=False):
            if done is not None and result.status in _ANSWERED:
                done()
        return results


@lru_cache(maxsize=2_000)
def _numbered(sql: str | bytes) -> _Numbered:
    places: dict[str | int, int] = {}
    forms: list[PyFormat] = []

    def number(found: re.Match[bytes]) -> bytes:
        name, form = found.groups()
        if form is None:
            return b"%"
        key = len(places) if name is None else name.decode()
        if key not in places:
            places[key] = len(places) + 1
            forms.append(_FORMS[form])
        return b"$%d" % places[key]

    whole = expanded(sql if isinstance(sql, str) else sql.decode())
    return _PLACEHOLDER.sub(number, whole.encode()), tuple(places), forms


def _bytes(sql: str | bytes) -> bytes:
    return sql.encode() if isinstance(sql, str) else sql
