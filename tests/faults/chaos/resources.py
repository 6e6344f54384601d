"""What processes hold: memory, descriptors, threads, database sessions; and whether it grows."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

import psutil
import psycopg

from tests.faults.chaos.stage import NAMES, Stage

_EVERY_SECONDS = 2.0
WARM_UP = 0.4
"""The part of a run in which everything may grow: pools, snapshots, caches, the allocator."""
_JUDGED = 0.25
"""The part at the end that is compared with as much after the warm-up."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How much more there may be at the end than after the warm-up."""

    unit: str
    share: float
    more: float

    def most(self, before: float) -> float:
        return before * (1 + self.share) + self.more


BOUNDS = {
    "memory": Bound("MB", 0.10, 16),
    "descriptors": Bound("", 0.10, 8),
    "threads": Bound("", 0.10, 3),
    "sessions": Bound("", 0.10, 4),
}

_SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name = %s"
)


class Resources:
    """Samples of both services."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._samples: dict[tuple[str, str], list[float]] = defaultdict(list)

    async def watch(self, seconds: float) -> None:
        """Take samples for so long."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self._sample()
            await asyncio.sleep(_EVERY_SECONDS)

    def _sample(self) -> None:
        with psycopg.connect(self._stage.administrator, autocommit=True) as connection:
            for name in NAMES:
                process = psutil.Process(self._stage.services[name].process.pid)
                row = connection.execute(_SESSIONS, [f"hitherto-{name}"]).fetchone()
                found = {
                    "memory": process.memory_info().rss / 2**20,
                    "descriptors": process.num_fds(),
                    "threads": process.num_threads(),
                    "sessions": row[0] if row else 0,
                }
                for what, number in found.items():
                    self._samples[name, what].append(number)

    def judged(self) -> tuple[str, list[str]]:
        """A table, and what has grown beyond its bound."""
        rows = ["| | After the warm-up | At the end | Most | Bound |", "|---|---:|---:|---:|---:|"]
        grown = []
        for (name, what), numbers in self._samples.items():
            part = max(1, int(len(numbers) * _JUDGED))
            start = int(len(numbers) * WARM_UP)
            before, after = median(numbers[start : start + part]), median(numbers[-part:])
            bound = BOUNDS[what]
            unit = f" {bound.unit}" if bound.unit else ""
            most = bound.most(before)
            cells = [f"{number:,.0f}{unit}" for number in (before, after, max(numbers), most)]
            rows.append(f"| {name}, {what} | {' | '.join(cells)} |")
            if after > most:
                grown.append(f"{what} of {name}: {before:.1f}, then {after:.1f}{unit}")
        return "\n".join(rows), grown
