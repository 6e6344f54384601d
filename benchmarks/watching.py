"""CPU time and memory of processes with all their children, as the kernel counts them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
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


class MemoryWatch:
    """Takes samples in the background, as an async context manager.

    Attributes:
        samples: What was seen, in order; the first one from before the load, the last one after.
    """

    def __init__(self, pids: Sequence[int], done: Callable[[], int]) -> None:
        self.samples: list[Sample] = []
        self._pids = pids
        self._done = done
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> MemoryWatch:
        """Begin."""
        self._take()
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Take the last sample."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._take()

    def _take(self) -> None:
        self.samples.append(Sample(self._done(), resident_bytes(self._pids)))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            self._take()


def _trees(pids: Sequence[int]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            found += [process, *process.children(recursive=True)]
    return found
