"""Lets a process end with the one that started it, however that one ends.

The starter holds the writing end of a pipe and never writes. The kernel closes it with the starter,
even after a SIGKILL, and the reading end of the started process ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

_OPTION = "--ends-with="


def arguments(descriptor: int) -> list[str]:
    """The arguments with which a started process finds its end of the pipe."""
    return [f"{_OPTION}{descriptor}"]


def is_lifeline(word: str) -> bool:
    """Whether a word of the command line comes from `arguments`."""
    return word.startswith(_OPTION)


def watch_starter(given: Sequence[str], gone: Callable[[], object]) -> None:
    """Call `gone`, in a thread of its own, when the starter has ended.

    Without a lifeline in the command line, nothing happens. `gone` may raise RuntimeError if there
    is nothing left to end.
    """
    descriptor = next((int(word.removeprefix(_OPTION)) for word in given if is_lifeline(word)), -1)
    if descriptor < 0:
        return
    os.set_inheritable(descriptor, False)

    def wait() -> None:
        with suppress(OSError):
            while os.read(descriptor, 64):
                pass
        with suppress(RuntimeError):
            gone()

    threading.Thread(target=wait, name="starter-watch", daemon=True).start()
