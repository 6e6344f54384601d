"""Runs several reads at a time on one connection, and sends their concurrent statements together.

Writes in a transaction may do the same, if none of them needs what another one writes.

    profile, tags = await together(connection, read_profile(connection), read_tags(connection))

Each read is a coroutine with any number of statements. All run up to their first statement; these
go to Postgres in one batch, in the order of the reads; and so on until all have returned. That
takes as many round trips as the longest of them has statements.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from hitherto_shared.database.exchange import StatementResult
from hitherto_shared.database.lean import LeanConnection, PendingStatements

Read = Coroutine[Any, Any, Any]


async def together(connection: AsyncConnection[TupleRow], *reads: Read) -> list[Any]:
    """The results of the reads, in order.

    Reads that start in a transaction stay in it; none may start one.

    Raises:
        Exception: The error of the first read that failed; the others do not continue.
    """
    if not isinstance(connection, LeanConnection):
        return [await read for read in reads]
    returned: list[Any] = [None] * len(reads)
    answers: dict[int, list[StatementResult] | None] = dict.fromkeys(range(len(reads)))
    try:
        while answers:
            wanted: dict[int, PendingStatements] = {}
            for place, given in answers.items():
                step = _ReadStep(connection, reads[place], given)
                came = await step
                if isinstance(came, PendingStatements):
                    wanted[place] = came
                else:
                    returned[place] = step.returned
            answers = {}
            if wanted:
                found = await connection.answers(
                    [a for each in wanted.values() for a in each.asked]
                )
                for place, each in wanted.items():
                    answers[place], found = found[: len(each.asked)], found[len(each.asked) :]
    finally:
        for read in reads:
            read.close()
    return returned


class _ReadStep:
    """A read on its way to its next statement, or to its end; other waits are awaited."""

    def __init__(
        self, connection: LeanConnection, read: Read, given: list[StatementResult] | None
    ) -> None:
        self._connection = connection
        self._read = read
        self._given = given
        self.returned: Any = None

    def __await__(self) -> Generator[Any, Any, PendingStatements | None]:
        try:
            came = self._go_on(self._given)
            while not isinstance(came, PendingStatements):
                try:
                    yield came
                except BaseException as error:
                    came = self._go_on(error)
                else:
                    came = self._go_on(None)
        except _Returned as end:
            self.returned = end.value
            return None
        return came

    def _go_on(self, given: list[StatementResult] | BaseException | None) -> Any:
        before, self._connection.collecting = self._connection.collecting, True
        try:
            if isinstance(given, BaseException):
                return self._read.throw(given)
            return self._read.send(given)
        except StopIteration as end:
            raise _Returned(end.value) from None
        finally:
            self._connection.collecting = before


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value
