"""A connection whose pipeline was cut off is not lent again: its statements would not be known."""

from __future__ import annotations

import pytest

from hitherto_retrieval.storage.statement import Rows, Statement, ask
from hitherto_shared.database.pool import Connection, Database
from hitherto_shared.errors import TooLate

UNTIL_PREPARED = 5
"""psycopg prepares a statement once it was used so often."""


def number(rows: Rows) -> int:
    return int(rows[0][0])


async def slow_and_quick(reader: Database, *, sleep: float, timeout: float) -> int:
    slow = Statement("SELECT 1 FROM pg_sleep(%(seconds)s)", {"seconds": sleep}, number)
    quick = Statement("SELECT %(number)s::int + 1", {"number": 41}, number)

    async def work(connection: Connection) -> None:
        await ask(connection, slow, quick)

    await reader.run(work, timeout=timeout)
    return quick.answer


@pytest.mark.parametrize("before", range(UNTIL_PREPARED + 2))
async def test_statements_go_on_after_a_pipeline_was_cut_off(reader: Database, before: int) -> None:
    for _ in range(before):
        assert await slow_and_quick(reader, sleep=0, timeout=120) == 42
    with pytest.raises(TooLate):
        await slow_and_quick(reader, sleep=20, timeout=0.05)
    for _ in range(UNTIL_PREPARED + 2):
        assert await slow_and_quick(reader, sleep=0, timeout=120) == 42
