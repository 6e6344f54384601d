"""What processes spend, as the kernel counts it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import psutil

SAMPLE_SECONDS = 0.5


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
