"""Bounds the log lines that a flood of calls would repeat, without losing their number."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any

WINDOW_SECONDS = 10.0
WHOLE_LINES = 10
"""How many lines of one kind are written within a window."""


class RepeatedLines:
    """Writes the first lines of each kind, and the number of the others when the window ends.

    A kind is a level, a message and the facts that tell callers and errors apart. Tenants are among
    these, so that a flood of one hides no line of another. Belongs to one event loop.
    """

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._times: Counter[tuple[Any, ...]] = Counter()
        self._began = self._clock()
        self._end: asyncio.TimerHandle | None = None

    def say(
        self,
        level: int,
        message: str,
        kind: Mapping[str, str],
        facts: Mapping[str, object] | None = None,
    ) -> None:
        """Write a line, or count it.

        `message` is fixed words; lines of one `kind` are counted together. `facts` belong to this
        line alone, such as a request id.
        """
        if not self._logger.isEnabledFor(level):
            return
        # A timer alone does not do: its loop may have ended.
        if not self._times or self._clock() - self._began >= WINDOW_SECONDS:
            self._begin()
        alike = (level, message, *kind.items())
        self._times[alike] += 1
        if self._times[alike] <= WHOLE_LINES:
            self._logger.log(level, message, extra={**kind, **(facts or {})})

    def flush(self) -> None:
        """Write how many lines were left out, and begin anew."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        # Not in the context of the present call: its request id is none of the others'.
        Context().run(self._report)
        self._times.clear()

    def _report(self) -> None:
        seconds = round(self._clock() - self._began, 1)
        for (level, message, *kind), times in self._times.items():
            if (more := times - WHOLE_LINES) > 0:
                extra = {**dict(kind), "repeated": more, "seconds": seconds}
                self._logger.log(level, message, extra=extra)

    def _begin(self) -> None:
        self.flush()
        self._began = self._clock()
        with suppress(RuntimeError):  # no loop, so that only the next line ends the window
            loop = asyncio.get_running_loop()
            self._end = loop.call_later(WINDOW_SECONDS, self.flush, context=Context())


call_lines = RepeatedLines(logging.getLogger("hitherto.rpc"))
"""What every call may log, of this process."""
