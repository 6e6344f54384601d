"""What logs tell of exceptions: the type and the place, never the text (faults.md row 63)."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from typing import Any

import psycopg
import pytest
from psycopg import errors

from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.faults import described
from hitherto_shared.telemetry import JsonFormatter, quiet_loop, without_message

SECRET = "zqcanary"


def formatted(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    formatter = JsonFormatter("test")
    return [json.loads(formatter.format(record)) for record in caplog.records]


def fail() -> None:
    try:
        raise ValueError(f"input {SECRET}")
    except ValueError as error:
        raise KeyError(SECRET) from error


def test_a_traceback_tells_types_and_places_of_the_whole_chain(
    caplog: pytest.LogCaptureFixture,
) -> None:
    try:
        fail()
    except KeyError as error:
        logging.getLogger("test").error("failed", exc_info=True)
        logging.getLogger("test").error("failed", exc_info=without_message(error))
    whole, named = (line["exception"] for line in formatted(caplog))
    assert SECRET not in whole + named
    for part in ("KeyError", "ValueError", "in fail"):
        assert part in whole
    assert "KeyError" in named
    assert "in fail" in named


async def test_what_nobody_caught_is_told_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quiet_loop(asyncio.get_running_loop())

    async def forgotten() -> None:
        raise errors.CheckViolation(f"Failing row contains ({SECRET})")

    task = asyncio.create_task(forgotten(), name="a-duty")
    await asyncio.wait({task})
    del task
    gc.collect()
    await asyncio.sleep(0)
    (line,) = formatted(caplog)
    assert "CheckViolation" in line["message"]
    assert line["task"].startswith("a-duty ")
    assert line["task"].endswith("forgotten")
    assert "in forgotten" in line["exception"]
    assert SECRET not in json.dumps(line)


def test_a_drivers_error_is_described_without_rows_and_values(postgres: EmbeddedPostgres) -> None:
    table = "CREATE TEMP TABLE t (a text UNIQUE CHECK (a <> 'no'))"
    with psycopg.connect(postgres.conninfo(), autocommit=True) as connection:
        connection.execute(table.replace("'no'", f"'{SECRET}'").encode())
        for sqlstate, statement in {
            "23514": f"INSERT INTO t VALUES ('{SECRET}')",
            "23505": f"INSERT INTO t VALUES ('my{SECRET}'), ('my{SECRET}')",
            "22P02": f"SELECT '{SECRET}'::integer",
        }.items():
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement.encode())
            assert SECRET in str(caught.value)
            told = described(caught.value)
            assert SECRET not in told
            assert f"SQLSTATE {sqlstate}" in told
    assert described(OSError("no such file")) == "no such file"
