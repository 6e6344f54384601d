"""`fulltext`: what Postgres says of a text that matches, and of one that does not (D13)."""

from __future__ import annotations

import psycopg
import pytest

from hitherto_retrieval.storage.candidate import text_rank_of

_RANK = "SELECT ts_rank(to_tsvector('simple', %s), websearch_to_tsquery('simple', %s))"


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("the table format", True),
        ("format of a long table", True),
        ("format " + "of a very long table " * 40, True),
        ("a table", False),
        ("nothing of it", False),
        ("", False),
    ],
)
def test_a_text_that_lacks_a_word_was_not_found(
    superuser_conninfo: str, text: str, matches: bool
) -> None:
    with psycopg.connect(superuser_conninfo) as connection:
        row = connection.execute(_RANK, (text, "table format")).fetchone()
    assert row is not None
    assert (text_rank_of(row[0]) > 0) == matches
