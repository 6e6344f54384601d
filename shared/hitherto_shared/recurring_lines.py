"""Bounds the log lines that work in the background repeats for as long as something fails.

Every loop, and the driver's own, logs what fails each time it does; here a line that recurs is
written at growing intervals, with how often it was left out.
"""

from __future__ import annotations

import copy
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 600.0
QUIET_SECONDS = 150.0
"""A line that was not repeated for so long is new again."""
_MOST_KEPT = 200
_OF_SOMEBODY = ("request_id", "job_id")
"""A line with one of these facts is about a call or a job of its own."""


@dataclass(slots=True)
class _Recurring:
    """A line that was written, and what came since."""

    record: logging.LogRecord
    written_at: float
    came_at: float
    pause: float
    left_out: int = 0


class RecurringLines(logging.StreamHandler[TextIO]):
    """Writes lines to a stream, standard error by default, with the facts that `facts` finds.

    Lines recur if they differ in nothing but the time. Lines of calls and jobs are all written;
    `rpc.repeated_lines` counts those of a flood of calls.
    """

    def __init__(
        self,
        formatter: logging.Formatter,
        facts: Callable[[logging.LogRecord], dict[str, object]],
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(sys.stderr if stream is None else stream)
        self.setFormatter(formatter)
        self._facts = facts
        self._places = formatter.formatException
        self._clock = clock
        self._kept: dict[tuple[object, ...], _Recurring] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it."""
        now = self._clock()
        self._tell_ended(now)
        facts = self._facts(record)
        if "repeated" in facts or any(name in facts for name in _OF_SOMEBODY):
            super().emit(record)
            return
        places = self._places(record.exc_info) if record.exc_info else ""
        line = (record.name, record.levelno, record.getMessage(), repr(facts), places)
        kept = self._kept.pop(line, None)
        if kept is None:
            super().emit(record)
            if len(self._kept) >= _MOST_KEPT:
                self._tell_left_out(self._kept.pop(next(iter(self._kept))))
            kept = _Recurring(record, now, now, FIRST_PAUSE_SECONDS)
        else:
            kept.record, kept.came_at = record, now
            if now - kept.written_at < kept.pause:
                kept.left_out += 1
            else:
                super().emit(_counted(kept))
                kept.written_at, kept.left_out = now, 0
                kept.pause = min(2 * kept.pause, LONGEST_PAUSE_SECONDS)
        # At the end: the first is the one that came longest ago.
        self._kept[line] = kept

    def close(self) -> None:
        """Write how many lines were left out."""
        self.acquire()
        try:
            self._tell_ended(float("inf"))
        finally:
            self.release()
        super().close()

    def _tell_ended(self, now: float) -> None:
        """Write the numbers of lines that have ceased to come."""
        while self._kept:
            line, kept = next(iter(self._kept.items()))
            if now - kept.came_at < QUIET_SECONDS:
                return
            del self._kept[line]
            self._tell_left_out(kept)

    def _tell_left_out(self, kept: _Recurring) -> None:
        if kept.left_out:
            super().emit(_counted(kept))


def _counted(kept: _Recurring) -> logging.LogRecord:
    """The line with the number of those that were left out, if there are any."""
    if not kept.left_out:
        return kept.record
    record = copy.copy(kept.record)
    record.repeated = kept.left_out
    record.seconds = round(kept.came_at - kept.written_at, 1)
    return record
