"""Runs several reads at a time on one connection, and sends their concurrent statements together.

Writes in a transaction may do the same, if none of them needs what another one writes.

    profile, tags = await together(connection, read_profile(connection), read_tags(connection))

Each read is a coroutine with any number of statements. All run up to their first statement; these
go to Postgres in one batch, in the order of the reads; and so on until all have returned. That
takes as many round trips as the longest of them has statements.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

import psycopg

from hitherto_shared.database.exchange import StatementResult
from hitherto_shared.database.pipeline_connection import PendingStatements, PipelineConnection

Read = Coroutine[Any, Any, Any]


async def together(connection: PipelineConnection, *reads: Read) -> list[Any]:
    """The results of the reads, in order.

    Reads that start in a transaction stay in it; none may start one.

    Raises:
        Exception: The error of the first read that failed; the others do not continue.
    """
    returned: list[Any] = [None] * len(reads)
    answers: dict[int, list[StatementResult] | None] = dict.fromkeys(range(len(reads)))
    try:
        while answers:
            wanted: dict[int, PendingStatements] = {}
            for place, given in answers.items():
                came = await _next_of(connection, reads[place], given)
                if isinstance(came, _Returned):
                    returned[place] = came.value
                else:
                    wanted[place] = came
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


async def kept(read: Read) -> Callable[[], Any]:
    """What a read has returned or raised, as a function that returns or raises it.

    For a read that is made before it is known whether its result counts. An error of Postgres is
    raised at once: it ends the transaction.
    """
    try:
        value = await read
    except psycopg.Error:
        raise
    except Exception as error:
        failed = error

        def fail() -> Any:
            raise failed

        return fail
    return lambda: value


class _Returned:
    """The end of a read, with what it returned."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@coroutine
def _next_of(
    connection: PipelineConnection, read: Read, given: list[StatementResult] | None
) -> Generator[Any, Any, PendingStatements | _Returned]:
    """A read's next statements, or its end; whatever else it waits for is awaited."""
    go_on: Callable[[Any], Any] = read.send
    what: Any = given
    while True:
        before, connection.collecting = connection.collecting, True
        try:
            came = go_on(what)
        except StopIteration as end:
            return _Returned(end.value)
        finally:
            connection.collecting = before
        if isinstance(came, PendingStatements):
            return came
        try:
            yield came
        except BaseException as error:
            go_on, what = read.throw, error
        else:
            go_on, what = read.send, None
