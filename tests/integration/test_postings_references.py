"""Postings refer to nobody row by row, and go with their user all the same."""

from __future__ import annotations

import psycopg
import pytest

from hitherto_extraction.storage.holdings import find_erasable
from hitherto_shared.database.pool import Database

_REFERENCES = """
SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = ('hitherto.' || %s)::regclass
"""


@pytest.mark.parametrize("table", ["postings", "passage_postings"])
async def test_no_posting_looks_for_its_user(
    conninfo: str, superuser_conninfo: str, table: str
) -> None:
    with psycopg.connect(superuser_conninfo) as connection:
        assert connection.execute(_REFERENCES, [table]).fetchall() == []
    database = Database(conninfo, "hitherto_removal", application="test")
    await database.open()
    try:
        assert table in await database.run(find_erasable, timeout=120)
    finally:
        await database.close()
