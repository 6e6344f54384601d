"""Signals that wait while a process is started."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from hitherto_shared.processes.held_signals import has_ended, signals_held

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


class Ended(Exception):
    """What the handler raises."""


@pytest.fixture
def ending() -> Iterator[None]:
    def end(*_: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("ending")
def test_they_come_when_the_block_is_over() -> None:
    done = []

    def start() -> None:
        with signals_held():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            done.append("started")

    with pytest.raises(Ended):
        start()
    assert done == ["started"]
    with pytest.raises(Ended):
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.usefixtures("ending")
def test_an_error_of_the_block_does_not_hide_them() -> None:
    def start() -> None:
        with signals_held():
            signal.raise_signal(signal.SIGTERM)
            raise OSError

    with pytest.raises(Ended) as caught:
        start()
    assert isinstance(caught.value.__context__, OSError)


class InterruptedLock:
    """A lock of a child; a signal comes as soon as it is taken."""

    def __init__(self) -> None:
        self.within = threading.Lock()
        self.release = self.within.release

    def acquire(self, blocking: bool) -> bool:
        taken = self.within.acquire(blocking)
        signal.raise_signal(signal.SIGTERM)
        return taken


def test_what_is_ignored_stays_so_and_another_thread_has_nothing_to_hold() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with signals_held():
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    started = []

    def start() -> None:
        with signals_held():
            started.append(True)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert started == [True]


@pytest.mark.usefixtures("ending")
def test_a_signal_while_a_child_is_looked_at_does_not_lock_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        lock = InterruptedLock()
        process._waitpid_lock = lock  # type: ignore[attr-defined]
        with pytest.raises(Ended):
            has_ended(process)
        free = lock.within.acquire(blocking=False)
        process._waitpid_lock = threading.Lock()  # type: ignore[attr-defined]
    assert free
