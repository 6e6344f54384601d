"""A sampling profile of a service under load, by py-spy, which whoever wants one installs."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import BenchmarkFailed

_RATE = "400"


@contextmanager
def recorded(pid: int, target: Path | None) -> Iterator[None]:
    """Write collapsed stacks of process `pid` for as long as the context lasts; None: nothing.

    Raises:
        BenchmarkFailed: py-spy is not installed.
    """
    if target is None:
        yield
        return
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise BenchmarkFailed("--profile needs py-spy: pip install py-spy, then run again")
    command = f"record --pid {pid} --rate {_RATE} --format raw --nonblocking --duration unlimited"
    profiler = subprocess.Popen(
        [found, *command.split(), "--output", str(target)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        # It writes its file when it is interrupted.
        profiler.send_signal(signal.SIGINT)
        profiler.wait()
