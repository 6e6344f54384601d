"""What one run found, and the bars it is held to."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.watching import Sample

CPU_MS_BAR = 12.0
POSTGRES_CPU_MS_BAR = 7.0
CPU_MS_AIM = 6.0
PER_SECOND_BAR = 70.0
IDLE_MS_BAR = 50.0
LONG_RUN = 20_000
"""Transcripts of the run over which memory is to stay flat."""
FLAT_PERCENT = 10.0
"""Growth of resident memory after the warm-up that still counts as flat."""
_WARM_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class LatencyPercentiles:
    """The middle of some times, and what 95 of 100 stay below; milliseconds."""

    p50: float
    p95: float

    @classmethod
    def of(cls, times: Sequence[float]) -> LatencyPercentiles:
        """Of at least one time."""
        ordered = sorted(times)
        return cls(
            round(statistics.median(ordered), 2),
            round(ordered[math.ceil(0.95 * len(ordered)) - 1], 2),
        )


@dataclass(frozen=True, slots=True)
class ResidentMemory:
    """Resident memory of the services, MiB: before the load, after its first tenth, at its end."""

    start: float
    warm: float
    end: float
    per_1000: float

    @classmethod
    def of(cls, samples: Sequence[Sample], transcripts: int) -> ResidentMemory:
        """From samples in order; `per_1000` is the growth per 1,000 transcripts once warm."""
        warm = next(s for s in samples if s.done >= _WARM_SHARE * transcripts)
        last = samples[-1]
        growth = 1_000 * (last.resident - warm.resident) / max(last.done - warm.done, 1)
        return cls(
            start=_mib(samples[0].resident),
            warm=_mib(warm.resident),
            end=_mib(last.resident),
            per_1000=_mib(growth),
        )

    @property
    def growth_percent(self) -> float:
        """How much larger it was at the end than when it was warm."""
        return 100 * (self.end / self.warm - 1)


@dataclass(frozen=True, slots=True)
class FloorFigures:
    """The same number of calls at the process that does the least."""

    calls: int
    per_second: float
    cpu_ms: float


@dataclass(frozen=True, slots=True)
class ThroughputReport:
    """The figures of one run.

    Attributes:
        transcripts: Measured ones, without the warm-up.
        users: Over how many users.
        services: Processes of the extraction service.
        in_flight: Transcripts unfinished at a time, at most.
        per_second: Transcripts per second, from the first call to the end of the last job.
        cpu_ms: CPU per transcript of the `service`, of `postgres`, of the `model` server and of the
            `driver` that sends.
        calls: Calls of the model by endpoint, `chat` and `embeddings`.
        latency_ms: From acceptance to the end of the job, with `in_flight` others.
        idle_start_ms: From acceptance to the start of the job, with no others.
        idle_end_ms: From acceptance to its end, with no others.
        memory_mib: Of all service processes together.
        floor: What cannot be done for less.
        machine: Where this was, and how busy that was before.
    """

    transcripts: int
    users: int
    services: int
    in_flight: int
    per_second: float
    cpu_ms: Mapping[str, float]
    calls: Mapping[str, int]
    latency_ms: LatencyPercentiles
    idle_start_ms: LatencyPercentiles
    idle_end_ms: LatencyPercentiles
    memory_mib: ResidentMemory
    floor: FloorFigures
    machine: Mapping[str, str | int | float]

    @property
    def times_the_floor(self) -> float:
        """CPU of the service by that of the floor."""
        return self.cpu_ms["service"] / self.floor.cpu_ms

    @property
    def calls_per_transcript(self) -> Mapping[str, float]:
        """Calls of the model by endpoint."""
        return {name: calls / self.transcripts for name, calls in self.calls.items()}


def _mib(size: float) -> float:
    return round(size / 2**20, 2)
