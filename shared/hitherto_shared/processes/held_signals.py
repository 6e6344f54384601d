"""Delays signals while a child is started or looked at, so that no child is left behind."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def signals_held() -> Iterator[None]:
    """Delay signals that would end this process until the block is over.

    Only the main thread receives signals: in another one there is nothing to delay.

    A handler that raises may do so anywhere, for example after a child was created and before its
    parent knows it. Handlers are not inherited, as a blocked signal would be.
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
        # An ignored signal stays ignored, also in children.
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
            before[number] = signal.signal(number, keep)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def has_ended(process: subprocess.Popen[Any]) -> bool:
    """Whether a child has ended.

    A handler that raises within `poll` can leave its lock taken; `wait` would then wait for ever.
    """
    with signals_held():
        return process.poll() is not None
