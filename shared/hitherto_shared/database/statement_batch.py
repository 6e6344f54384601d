"""Statements as libpq takes them: placeholders, converted values, names of what is prepared.

psycopg converts Python's values and the rows. A statement is prepared at its first use, and
identified by its text and the types of its parameters from then on. `exchange` sends batches.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from psycopg import AsyncConnection, errors, pq
from psycopg.abc import Transformer
from psycopg.adapt import PyFormat

from hitherto_shared.database.local_settings import LocalSettings

Parameters = Mapping[str, Any] | Sequence[Any]
Row = tuple[Any, ...]

_MOST_PREPARED = 100
"""Maximum number of prepared statements per connection: the most recently used."""
_PLACEHOLDER = re.compile(rb"%(?:(?:\((\w+)\))?([sbt])|%)")
_FORMS = {b"s": PyFormat.AUTO, b"b": PyFormat.BINARY, b"t": PyFormat.TEXT}
_ANSWERED = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)

_Key = tuple[bytes, tuple[int, ...]]
"""A statement, and the types of its parameters."""


@dataclass(slots=True)
class BoundStatement:
    """A statement and its parameters: `%(name)s` of a mapping or `%s` of a sequence.

    As in psycopg, `b` in place of `s` sends a parameter in binary form and `t` as text.

    Attributes:
        sql: One statement.
        parameters: The values of its placeholders.
        binary: Whether rows come in Postgres' binary form, which is parsed faster.
    """

    sql: str | bytes
    parameters: Parameters = ()
    binary: bool = True


@dataclass(slots=True)
class StatementResult:
    """The result of a statement: its rows, and how many it returned or changed."""

    rows: list[Row]
    count: int


class PreparedStatements:
    """The prepared statements of a connection: names by statement, the most recently used last.

    Attributes:
        transformer: Converts the values and rows of every statement. It looks up each type once, so
            adapters of a type are registered before its first use.
        settings: What each transaction sets, of a connection on which nothing stays prepared.
        names: The names.
        superfluous: Those to be dropped.
    """

    def __init__(self, transformer: Transformer, settings: LocalSettings | None = None) -> None:
        self.transformer = transformer
        self.settings = settings
        self.names: OrderedDict[_Key, bytes] = OrderedDict()
        self.superfluous: list[bytes] = []
        self._made = 0

    def new_name(self) -> bytes:
        """A name that no statement of this connection had before."""
        self._made += 1
        return b"hitherto_%d" % self._made

    def keep(self, key: _Key, name: bytes) -> None:
        """Record a prepared statement, in place of the least recently used one."""
        self.names[key] = name
        if len(self.names) > _MOST_PREPARED:
            self.superfluous.append(self.names.popitem(last=False)[1])

    def dropped(self, name: bytes) -> None:
        """Record what Postgres has dropped."""
        with suppress(ValueError):
            self.superfluous.remove(name)

    def forget(self) -> None:
        """Treat nothing as prepared any more; remains in Postgres stay there."""
        self.names.clear()
        self.superfluous.clear()


class StatementBatch:
    """Statements as libpq calls, and the meaning of the results.

    Attributes:
        calls: Each puts something into the buffer and has one result.
    """

    def __init__(
        self,
        connection: AsyncConnection[Any],
        prepared: PreparedStatements,
        asked: Sequence[BoundStatement],
    ) -> None:
        self.calls: list[partial[None]] = []
        self._connection = connection
        self._prepared = prepared
        # The subject of each result: a prepared statement, its rows, or a dropped name.
        self._meanings: list[tuple[_Key, bytes] | bytes | None] = []
        self._new: dict[_Key, bytes] = {}
        pgconn = connection.pgconn
        transformer = prepared.transformer
        for each in asked:
            text, keys, forms = _numbered(each.sql)
            given: Any = each.parameters
            values = [given[key] for key in keys]
            dumped = transformer.dump_sequence(values, forms)
            known = self._prepare((text, transformer.types or ()))
            self._add(
                None,
                partial(
                    pgconn.send_query_prepared,
                    known,
                    dumped,
                    transformer.formats,
                    pq.Format.BINARY if each.binary else pq.Format.TEXT,
                ),
            )
        # After the statements: before them, it would start the transaction that they start.
        for name in prepared.superfluous:
            self._add(name, partial(pgconn.send_query_params, b"DEALLOCATE " + name, None))

    def _prepare(self, key: _Key) -> bytes:
        """The name of a statement, which is prepared before unless it is."""
        names = self._prepared.names
        known = names.get(key)
        if known is not None:
            names.move_to_end(key)
        elif (known := self._new.get(key)) is None:
            known = self._new[key] = self._prepared.new_name()
            self._add_preparation(known, key)
        return known

    def _add_preparation(self, name: bytes, key: _Key) -> None:
        self._add((key, name), partial(self._connection.pgconn.send_prepare, name, *key))

    def _add(self, meaning: tuple[_Key, bytes] | bytes | None, call: partial[None]) -> None:
        self.calls.append(call)
        self._meanings.append(meaning)

    def note(self, results: Sequence[pq.abc.PGresult]) -> None:
        """Record what Postgres has prepared and dropped, even if the answers are not read."""
        for meaning, result in zip(self._meanings, results, strict=False):
            if result.status not in _ANSWERED:
                continue
            if isinstance(meaning, tuple):
                self._prepared.keep(*meaning)
            elif isinstance(meaning, bytes):
                self._prepared.dropped(meaning)

    def read(self, results: Sequence[pq.abc.PGresult]) -> list[StatementResult]:
        """The answers, in the order of the statements.

        Raises:
            psycopg.Error: The error of the first statement that failed.
        """
        answers: list[StatementResult] = []
        # Outside a transaction, Postgres commits once all statements are answered; if that fails,
        # the error is one more result.
        for meaning, result in zip([*self._meanings, None], results, strict=False):
            if result.status not in _ANSWERED:
                raise errors.error_from_result(result, encoding=self._connection.info.encoding)
            if meaning is None:
                answers.append(_answer(self._prepared.transformer, result))
        return answers


class UnpreparedBatch(StatementBatch):
    """A batch of which nothing remains in Postgres.

    The nameless statement is gone once another takes its place. The same statement many times over
    is still parsed once.
    """

    _last: _Key | None = None

    def _prepare(self, key: _Key) -> bytes:
        if key != self._last:
            self._last = key
            self._add_preparation(b"", key)
        return b""

    def note(self, results: Sequence[pq.abc.PGresult]) -> None:
        """Record nothing."""


def _answer(transformer: Transformer, result: pq.abc.PGresult) -> StatementResult:
    if result.status != pq.ExecStatus.TUPLES_OK:
        changed = result.command_tuples
        return StatementResult([], -1 if changed is None else changed)
    transformer.set_pgresult(result)
    count = result.ntuples
    return StatementResult(transformer.load_rows(0, count, tuple), count)


@lru_cache(maxsize=2_000)
def _numbered(sql: str | bytes) -> tuple[bytes, Sequence[str | int], Sequence[PyFormat]]:
    """A statement with Postgres' own placeholders; the key and the format of each."""
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

    text = sql.encode() if isinstance(sql, str) else sql
    return _PLACEHOLDER.sub(number, text), tuple(places), forms
