"""What processes spend, as the kernel counts it, and a sampling profile of one by py-spy."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks import BenchmarkFailed

SAMPLE_SECONDS = 0.5
_RATE = "400"


@dataclass(frozen=True, slots=True)
class Sample:
    """Resident memory, in bytes, when so many transcripts were done."""

    done: int
    resident: int


def cpu_seconds(pids: Sequence[int]) -> float:
    """CPU time that processes, their children and those that have ended have used up to now."""
    total = 0.0
    for process in _trees(pids):
        with suppress(psutil.NoSuchProcess):
            spent = process.cpu_times()
            total += spent.user + spent.system
            # Of children that ended and were waited for; macOS does not tell.
            total += getattr(spent, "children_user", 0.0) + getattr(spent, "children_system", 0.0)
    return total


def resident_bytes(pids: Sequence[int]) -> int:
    """Resident memory of processes and their children."""
    total = 0
    for process in _trees(pids):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total


@asynccontextmanager
async def memory_watched(
    pids: Sequence[int], done: Callable[[], int]
) -> AsyncIterator[list[Sample]]:
    """Samples, taken in the background: the first from before the load, the last from after it."""
    samples: list[Sample] = []

    def take() -> None:
        samples.append(Sample(done(), resident_bytes(pids)))

    async def watch() -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            take()

    take()
    watching = asyncio.create_task(watch())
    try:
        yield samples
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        take()


def _trees(pids: Sequence[int]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found += [process, *process.children(recursive=True)]
    return found


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
