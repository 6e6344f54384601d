"""Ctrl-C: twice it asks the command to end in good order, the third time nobody is asked."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ASKED = 2


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first interrupts, and let the system end us at the next one.

    What is done between, such as closing a connection, may hang where no exception reaches it.
    """
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not main or before is not signal.default_int_handler:
        yield
        return
    heard = 0

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        heard += 1
        if heard >= _ASKED:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        if not heard:
            signal.signal(signal.SIGINT, before)
