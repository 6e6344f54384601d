"""Lines that a loop repeats while something fails: at growing intervals, with their number."""

from __future__ import annotations

import contextvars
import io
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from hitherto_shared.recurring_lines import LONGEST_PAUSE_SECONDS, RecurringLines
from hitherto_shared.rpc.call import name_request
from hitherto_shared.telemetry import JsonFormatter, job_id_of_task


class Log:
    """A logger whose lines pass the handler of a service, and a clock that stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.stream = io.StringIO()
        self.handler = RecurringLines(JsonFormatter("test"), self.stream, lambda: self.now)
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
