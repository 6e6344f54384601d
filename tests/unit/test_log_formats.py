"""Lines of the log: how they look, what they never tell, and how often they are repeated."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import io
import json
import logging
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import errors

from hitherto_shared import tasks
from hitherto_shared.database.embedded import EmbeddedPostgres
from hitherto_shared.database.faults import described
from hitherto_shared.recurring_lines import LONGEST_PAUSE_SECONDS, RecurringLines
from hitherto_shared.rpc import repeated_lines
from hitherto_shared.rpc.admission import request_id
from hitherto_shared.rpc.call import name_request
from hitherto_shared.rpc.observed_call import ObservedCall
from hitherto_shared.rpc.repeated_lines import WHOLE_LINES, WINDOW_SECONDS, RepeatedLines
from hitherto_shared.telemetry import (
    JsonFormatter,
    TextFormatter,
    job_id_of_task,
    quiet_loop,
    without_message,
)
from tests.clock import Clock

SAY = """
import logging, sys
from hitherto_shared.telemetry import configure_logging
configure_logging("a-service", "INFO", sys.argv[1])
logging.getLogger("hitherto.test").warning("heard %s", "it", extra={"kind": "x y", "count": 2})
"""


def said(form: str, *, terminal: bool) -> str:
    """What a process writes to its stderr, which is a terminal or a pipe."""
    command = [sys.executable, "-c", SAY, form]
    if not terminal:
        return subprocess.run(command, capture_output=True, text=True, check=True).stderr
    ours, theirs = pty.openpty()
    try:
        subprocess.run(command, stderr=theirs, check=True)
        return os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_terminal_gets_text_and_everything_else_json() -> None:
    for form, terminal, text in [
        ("auto", True, True),
        ("auto", False, False),
        ("json", True, False),
        ("text", False, True),
    ]:
        line = said(form, terminal=terminal).strip()
        if text:
            assert line.endswith('WARNING heard it kind="x y" count=2'), form
        else:
            told = json.loads(line)
            assert (told["service"], told["message"], told["count"]) == (
                "a-service",
                "heard it",
                2,
            ), form


def formatted(message: str, **extra: Any) -> str:
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", **extra})
    return TextFormatter("test").format(record)


def test_text_cannot_change_what_a_terminal_shows_elsewhere() -> None:
    line = formatted("up\x1b[2A and\nfaked \u202eline", request_id="a\u009bb", name_of="tiếng việt")
    assert line.endswith(
        'up\\x1b[2A and\\nfaked \\u202eline request_id=a\\x9bb name_of="tiếng việt"'
    )
    # A caller names no call in this way, nor at length.
    for given in ("up\x1b[2A", "x" * 129, ""):
        assert request_id({"x-request-id": given}) != given


def test_an_exception_follows_without_its_message() -> None:
    text = "secr" + "et"
    try:
        raise ValueError(text)
    except ValueError:
        told = formatted("failed", exc_info=sys.exc_info())
    first, *others = told.splitlines()
    assert (first.endswith("failed"), others[-1]) == (True, "ValueError")
    assert "secret" not in told


@pytest.mark.parametrize(("slow_seconds", "lines"), [(0.0, 1), (3600.0, 0)])
async def test_only_a_slow_call_is_logged(
    caplog: pytest.LogCaptureFixture, slow_seconds: float, lines: int
) -> None:
    with ObservedCall("/hitherto.v1.Tests/Call", "r-1", slow_seconds, {}, traced=False):
        pass
    found = [vars(line) for line in caplog.records if line.msg == "slow call"]
    assert len(found) == lines
    assert all(line["method"] == "Tests/Call" and line["code"] == "OK" for line in found)


# What logs tell of exceptions: the type and the place, never the text (faults.md row 63).


SECRET = "zqcanary"


def parsed(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
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
    whole, named = (line["exception"] for line in parsed(caplog))
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
    (line,) = parsed(caplog)
    assert "CheckViolation" in line["message"]
    assert line["task"].startswith("a-duty ")
    assert line["task"].endswith("forgotten")
    assert "in forgotten" in line["exception"]
    assert SECRET not in json.dumps(line)


async def test_the_failure_of_a_background_task_is_told_when_its_holder_ends_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quiet_loop(asyncio.get_running_loop())

    async def failing() -> None:
        raise errors.CheckViolation(f"Failing row contains ({SECRET})")

    failed = asyncio.create_task(failing(), name="a-duty")
    running = asyncio.create_task(asyncio.Event().wait())
    await asyncio.wait({failed})
    await tasks.cancel(failed, running, None)
    assert running.cancelled()
    (line,) = parsed(caplog)
    assert "CheckViolation" in line["message"]
    assert line["task"].startswith("a-duty ")
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


# Lines that calls repeat: the first of a kind, the number of the rest, and nothing of others.


LOGGER = logging.getLogger("test.repeated")


@pytest.fixture(autouse=True)
def _level() -> None:
    LOGGER.setLevel(logging.INFO)


def told(caplog: pytest.LogCaptureFixture, tenant: str) -> list[dict[str, Any]]:
    lines = [vars(record) for record in caplog.records if record.name == LOGGER.name]
    return [line for line in lines if line["tenant"] == tenant]


def test_a_flood_of_one_hides_no_line_of_another(caplog: pytest.LogCaptureFixture) -> None:
    lines = RepeatedLines(LOGGER, Clock())
    for number in range(100):
        lines.say(logging.INFO, "refused", {"tenant": "loud"}, {"id": number})
        if number % 30 == 0:
            lines.say(logging.INFO, "refused", {"tenant": "quiet"}, {"id": number})
    lines.flush()
    *first, last = told(caplog, "loud")
    assert [line["id"] for line in first] == list(range(WHOLE_LINES))
    assert last["repeated"] == 100 - WHOLE_LINES
    assert "id" not in last
    assert [line["id"] for line in told(caplog, "quiet")] == [0, 30, 60, 90]


def test_every_window_begins_anew_even_where_no_timer_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    lines = RepeatedLines(LOGGER, clock)
    for _ in range(3):
        for _ in range(WHOLE_LINES + 5):
            lines.say(logging.INFO, "refused", {"tenant": "a"})
        clock.now += WINDOW_SECONDS
    lines.flush()
    numbers = [line.get("repeated") for line in told(caplog, "a")]
    assert numbers == [*([None] * WHOLE_LINES), 5] * 3


async def test_the_number_comes_when_the_flood_is_over(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_lines, "WINDOW_SECONDS", 0.05)
    over = asyncio.Event()

    def seen(line: logging.LogRecord) -> bool:
        if hasattr(line, "repeated"):
            over.set()
        return True

    monkeypatch.setattr(LOGGER, "filters", [seen])
    lines = RepeatedLines(LOGGER, Clock())
    for _ in range(WHOLE_LINES + 7):
        lines.say(logging.INFO, "refused", {"tenant": "a"})
    async with asyncio.timeout(30):
        await over.wait()
    assert told(caplog, "a")[-1]["repeated"] == 7


# Lines that a loop repeats while something fails: at growing intervals, with their number.


class Log:
    """A logger whose lines pass the handler of a service, and a clock that stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.stream = io.StringIO()
        lines = JsonFormatter("test")
        self.handler = RecurringLines(lines, lines.facts, self.stream, lambda: self.now)
        self.logger = logging.Logger("test.recurring")
        self.logger.addHandler(self.handler)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def fail(self, seconds: int, message: str = "cannot claim jobs: %s") -> None:
        """What a loop says that tries once a second."""
        for _ in range(seconds):
            self.logger.warning(message, "no writes")
            self.now += 1


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_failing_loop_is_told_at_once_and_then_ever_more_rarely(log: Log) -> None:
    log.fail(3_600)
    lines = log.lines()
    assert 8 <= len(lines) <= 14
    assert {line["message"] for line in lines} == {"cannot claim jobs: no writes"}
    assert "repeated" not in lines[0]
    log.handler.close()
    left_out = sum(line.get("repeated", 0) for line in log.lines())
    assert left_out + len(lines) == 3_600
    gaps = [line["seconds"] for line in lines[1:]]
    assert gaps == sorted(gaps)
    assert gaps[-1] <= LONGEST_PAUSE_SECONDS + 1


def test_loops_do_not_hide_each_others_lines(log: Log) -> None:
    log.fail(60)
    log.logger.warning("webhooks are called later: %s", "no writes")
    log.logger.warning("cannot claim jobs: %s", "unreachable")
    log.logger.error("cannot claim jobs: %s", "no writes")
    assert [line["message"] for line in log.lines()[-3:]] == [
        "webhooks are called later: no writes",
        "cannot claim jobs: unreachable",
        "cannot claim jobs: no writes",
    ]


def test_lines_of_calls_and_jobs_are_all_written(log: Log) -> None:
    for said_by, name in ((name_request, "request-1"), (job_id_of_task.set, "a job")):

        def work(said_by: Callable[[str], object] = said_by, name: str = name) -> None:
            said_by(name)
            log.fail(50)

        contextvars.copy_context().run(work)
    assert len(log.lines()) == 100


def test_what_is_remembered_is_bounded(log: Log) -> None:
    for number in range(1_000):
        log.logger.warning("cannot read %d", number)
        log.logger.warning("cannot read %d", number)
    log.handler.close()
    lines = log.lines()
    assert sum(1 for line in lines if "repeated" not in line) == 1_000
    assert sum(line.get("repeated", 0) for line in lines) == 1_000
