"""What ends a command that keeps processes: signals, its terminal, the process that started it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Endings:
    """Why the command should end, once it should."""

    def __init__(self) -> None:
        self.why = ""
        """Empty while it goes on."""
        self.urgent = False
        """Somebody asked again: nothing is waited for."""
        # `nohup` and the like: meant to outlive the terminal and the shell.
        self._stays = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        self._parent = os.getppid()

    def look(self) -> bool:
        """Whether to end."""
        if not self.why and not self._stays and os.getppid() != self._parent:
            self.why = "the process that started it is gone"
        return bool(self.why)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.why:
            # The terminal that sends Ctrl-C may close next; only a person asks twice.
            self.urgent = number != signal.SIGHUP
        names = {signal.SIGINT: "Ctrl-C", signal.SIGHUP: "its terminal is gone"}
        self.why = self.why or names.get(signal.Signals(number), "asked to end")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note signals instead of obeying them meanwhile."""
        numbers = [signal.SIGINT, signal.SIGTERM]
        if not self._stays:
            numbers.append(signal.SIGHUP)
        before = {number: signal.signal(number, self._received) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
