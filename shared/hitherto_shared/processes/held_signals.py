"""Signals that come while a process is started wait until it is known: none is left behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def signals_held() -> Iterator[None]:
    """Keep back what would end this process until the block is over.

    Only the main thread hears signals: in another one there is nothing to keep back.

    A handler that raises does so anywhere, also after a child was made and before its parent has
    it. Handlers are not inherited, as a blocked signal would be.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before: dict[signal.Signals, Any] = {}

    def keep(number: int, frame: FrameType | None) -> None:
        came.append(number)

    for name in _ENDING:
        number = getattr(signal, name, None)
        # Who ignores a signal goes on ignoring it, and so do the children.
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
            before[number] = signal.signal(number, keep)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
