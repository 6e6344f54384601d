"""What one run found, the bars it is held to, and both as tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from benchmarks.report import JudgedBar, Machine, bars_table, noise, percentile, table
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
        return cls(round(statistics.median(times), 2), round(percentile(times, 0.95), 2))

    def shown(self, digits: int) -> str:
        """Both, with their unit."""
        return f"{self.p50:.{digits}f} / {self.p95:.{digits}f} ms"


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
    machine: Machine

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


def bars(report: ThroughputReport) -> list[JudgedBar]:
    """All bars, in order; memory is judged by a long run only."""
    cpu, calls = report.cpu_ms, report.calls_per_transcript
    limits = (
        ("own CPU per transcript", cpu["service"], CPU_MS_BAR),
        ("CPU of Postgres per transcript", cpu["postgres"], POSTGRES_CPU_MS_BAR),
        ("acceptance to start when idle, p50", report.idle_start_ms.p50, IDLE_MS_BAR),
    )
    growth = report.memory_mib.growth_percent
    flat = growth <= FLAT_PERCENT if report.transcripts >= LONG_RUN else None
    return [
        *(JudgedBar.limit("P5", name, value, most, "ms", digits=1) for name, value, most in limits),
        JudgedBar(
            "P5",
            "transcripts per second",
            f"{report.per_second:.1f}",
            f"≥ {PER_SECOND_BAR:g}",
            report.per_second >= PER_SECOND_BAR,
        ),
        *(
            JudgedBar("P5", f"{name} calls per transcript", f"{calls[of]:.3f}", "1", calls[of] == 1)
            for name, of in (("LLM", "chat"), ("embedding", "embeddings"))
        ),
        JudgedBar(
            "P5",
            "resident memory after warm-up",
            f"{growth:+.1f} %",
            f"≤ {FLAT_PERCENT:g} % over {LONG_RUN:,}",
            flat,
        ),
    ]


def show(report: ThroughputReport, console: Console) -> None:
    """Print what has a bar, then what explains it; on a busy machine no bar is met or missed."""
    if why := noise(report.machine):
        console.print(why)
    title = (
        f"{report.transcripts:,} transcripts, {report.users:,} users, "
        f"{report.services} service process(es)"
    )
    console.print(bars_table(title, bars(report), held=not why))
    floor, memory = report.floor, report.memory_mib
    spent = [(f"CPU per transcript, {name}", f"{ms:.2f} ms") for name, ms in report.cpu_ms.items()]
    rows = [
        *spent,
        ("CPU per transcript, floor", f"{floor.cpu_ms:.2f} ms"),
        ("aim for the service", f"{CPU_MS_AIM:g} ms"),
        ("service by floor", f"{report.times_the_floor:.1f}"),
        ("floor, transcripts per second", f"{floor.per_second:.0f}"),
        (
            f"acceptance to end, {report.in_flight} in flight, p50 / p95",
            report.latency_ms.shown(0),
        ),
        ("acceptance to start when idle, p50 / p95", report.idle_start_ms.shown(1)),
        ("acceptance to end when idle, p50 / p95", report.idle_end_ms.shown(1)),
        (
            "resident memory, start / warm / end",
            f"{memory.start:.0f} / {memory.warm:.0f} / {memory.end:.0f} MiB",
        ),
        ("growth once warm", f"{memory.per_1000:+.2f} MiB per 1,000 transcripts"),
        *((name, str(value)) for name, value in report.machine.items()),
    ]
    console.print(table("what it consists of", ("", ""), rows, head=False))


def as_json(report: ThroughputReport) -> dict[str, Any]:
    """Every figure."""
    return asdict(report) | {"times_the_floor": round(report.times_the_floor, 2)}


def by_name(found: Mapping[str, Any]) -> dict[str, float]:
    """The figures of `as_json` that two runs are compared by."""
    named = {f"CPU ms per transcript, {name}": ms for name, ms in found["cpu_ms"].items()}
    named |= {f"calls, {name}": calls for name, calls in found["calls"].items()}
    for of in ("latency_ms", "idle_start_ms", "idle_end_ms"):
        named |= {f"{of}, {name}": ms for name, ms in found[of].items()}
    memory = {f"memory, {name} MiB": mib for name, mib in found["memory_mib"].items()}
    return {"transcripts per second": found["per_second"], **named, **memory}
