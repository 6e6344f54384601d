"""Postings refer to nobody row by row, and go with their user; their arrays are not analysed."""

from __future__ import annotations

from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from hitherto_extraction.storage.holdings import find_erasable
from hitherto_shared.database.pool import Database

_REFERENCES = """
SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid = ('hitherto.' || %s)::regclass
"""
_POSTINGS = """
INSERT INTO hitherto.postings (tenant_id, user_id, term, segment, lexical_nos, frequencies, lengths)
SELECT 'default', 'ana', 'w' || n, 0, ARRAY[n, n + 1], '{1,2}', '{5,5}'
FROM generate_series(1, 100) AS n
"""
_PASSAGES = """
INSERT INTO hitherto.passage_postings
    (tenant_id, user_id, corpus, term, segment, lexical_nos, frequencies, lengths)
SELECT 'default', 'ana', 'messages', 'w' || n, 0, ARRAY[n, n + 1], '{1,2}', '{5,5}'
FROM generate_series(1, 100) AS n
"""
_ANALYSED = "SELECT attname FROM pg_stats WHERE schemaname = 'hitherto' AND tablename = %s"


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


@pytest.mark.parametrize(
    ("table", "written"), [("postings", _POSTINGS), ("passage_postings", _PASSAGES)]
)
def test_no_array_of_postings_is_analysed(
    superuser_conninfo: str, table: LiteralString, written: LiteralString
) -> None:
    """Sorting them took three quarters of the time, and no plan depends on them."""
    with psycopg.connect(superuser_conninfo, autocommit=True) as connection:
        connection.execute(written)
        connection.execute(sql.SQL("ANALYZE hitherto.{}").format(sql.Identifier(table)))
        analysed = {name for (name,) in connection.execute(_ANALYSED, [table])}
    assert {"user_id", "term", "segment"} <= analysed
    assert not {"lexical_nos", "frequencies", "lengths"} & analysed
