"""A statement with its parameters and the conversion of its rows; many share one round trip.

Storage modules create statements, `ask` sends them. What a read needs at the same time goes in one
batch, whatever tables it concerns: five statements then cost one round trip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from hitherto_shared.database.exchange import BoundStatement, StatementResult
from hitherto_shared.database.pool import Connection, Reads

_PLAN_ANEW = BoundStatement("SELECT set_config('plan_cache_mode', 'force_custom_plan', true)")
"""Applies until the end of the round trip, which is a transaction."""

Answer = TypeVar("Answer")
Other = TypeVar("Other")
Rows = Sequence[tuple[Any, ...]]


class Statement(Generic[Answer]):
    """One query to the database.

    Args:
        sql: Named parameters, `%(name)s`.
        parameters: Their values.
        read: Converts the rows.
        planned_anew: True for a statement whose best plan depends on its parameters. Others get one
            plan per connection, which saves planning at every call.
    """

    def __init__(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        read: Callable[[Rows], Answer],
        *,
        planned_anew: bool = False,
    ) -> None:
        self.sql = sql
        self.parameters = parameters
        self.read = read
        self.planned_anew = planned_anew
        self._rows: Rows | None = None
        self._answer: list[Answer] = []

    @property
    def answer(self) -> Answer:
        """The converted rows, available after `ask`; converted once."""
        if not self._answer:
            assert self._rows is not None, "the statement has not run yet"
            self._answer.append(self.read(self._rows))
        return self._answer[0]

    def meaning(self, further: Callable[[Answer], Other]) -> Statement[Other]:
        """The same query with its answer converted further."""
        read = self.read
        return Statement(
            self.sql,
            self.parameters,
            lambda rows: further(read(rows)),
            planned_anew=self.planned_anew,
        )

    def answered(self, rows: Rows) -> None:
        """Take the rows; those of a repeated read replace the earlier ones."""
        self._rows = rows
        self._answer.clear()


class Answered(Statement[Answer]):
    """In the place of a statement, what needs not be asked."""

    def __init__(self, answer: Answer) -> None:
        self.sql = ""
        self._answer = [answer]


Asking = Callable[..., Awaitable[None]]
"""Runs statements on some database; afterwards they hold their answers."""


class _Trip:
    """Statements that share a round trip."""

    def __init__(self, statements: Sequence[Statement[Any]]) -> None:
        statements = [statement for statement in statements if statement.sql]
        # Statements after the setting are planned again; the plans of the others are kept.
        anew = [statement for statement in statements if statement.planned_anew]
        kept = [statement for statement in statements if not statement.planned_anew]
        self._statements = [*kept, *anew]
        self._setting = len(kept) if anew else None
        self.asked = [BoundStatement(each.sql, each.parameters) for each in self._statements]
        if self._setting is not None:
            self.asked.insert(self._setting, _PLAN_ANEW)

    def answered(self, answers: list[StatementResult]) -> None:
        """Give the statements their answers."""
        if self._setting is not None:
            del answers[self._setting]
        for statement, answer in zip(self._statements, answers, strict=True):
            statement.answered(answer.rows)


async def ask(connection: Connection, *statements: Statement[Any]) -> None:
    """Send statements to the database in one round trip; afterwards they hold their answers.

    Without any that needs an answer there is no round trip.
    """
    trip = _Trip(statements)
    if trip.asked:
        trip.answered(await connection.answers(trip.asked))


async def ask_at(database: Reads, deadline: float, *statements: Statement[Any]) -> None:
    """As `ask`, on a connection borrowed for the trip, by the loop's time `deadline`.

    A lost connection is replaced once. Nothing to ask borrows none.
    """
    trip = _Trip(statements)
    if trip.asked:
        timeout = deadline - asyncio.get_running_loop().time()
        trip.answered(
            await database.run(
                lambda connection: connection.answers(trip.asked), timeout=timeout, repeatable=True
            )
        )


def asking_at(database: Reads, deadline: float) -> Asking:
    """Asks `database` as `ask_at`."""
    return partial(ask_at, database, deadline)
