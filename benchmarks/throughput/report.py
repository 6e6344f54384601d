"""The names of the figures, what they are held to, and how they are printed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.report import FigureTable, JudgedBar, ResultPart, percentile
from benchmarks.watching import Sample

CPU_OF = {
    "service": "CPU of the service per transcript",
    "postgres": "CPU of Postgres per transcript",
    "model": "CPU of the model server per transcript",
    "driver": "CPU of the process that sends, per transcript",
}
SERVICE_CPU = CPU_OF["service"]
RATE = "transcripts per second"
CALLS_OF = {
    "chat": "calls of the language model per transcript",
    "embeddings": "embedding calls per transcript",
}
START_WHEN_IDLE = "acceptance to start of the job when idle"
END_WHEN_IDLE = "acceptance to end of the job when idle"
END_UNDER_LOAD = "acceptance to end of the job under load"
MEMORY_START, MEMORY_WARM, MEMORY_END = (
    f"resident memory {when}" for when in ("before", "after a tenth of the load", "at its end")
)
MEMORY_GROWTH = "growth of resident memory once warm"
MEMORY_PER_1000 = "growth once warm per 1,000 transcripts"
FLOOR_CPU = "floor: CPU per call"
FLOOR_RATE = "floor: calls per second"
BY_FLOOR = "CPU of the service by that of the floor"
LONG_RUN = 20_000
"""Transcripts of the run over which memory is to stay flat."""
_WARM_SHARE = 0.1
_MIB = 2**20


class FigureKind(NamedTuple):
    """How a figure is printed, and between which values it must lie if it has a bar."""

    name: str
    unit: str = ""
    digits: int = 1
    least: float | None = None
    most: float | None = None
    bar: str = ""

    def shown(self, value: float) -> str:
        """A value with its unit."""
        return f"{value:,.{self.digits}f} {self.unit}".strip()

    def judged(self, value: float) -> bool:
        """Whether a value keeps the bar."""
        above = self.least is None or value >= self.least
        return above and (self.most is None or value <= self.most)


KINDS = (
    FigureKind(SERVICE_CPU, "ms", most=12.0, bar="≤ 12 ms, aim 6"),
    FigureKind(CPU_OF["postgres"], "ms", most=7.0, bar="≤ 7 ms"),
    FigureKind(RATE, least=70.0, bar="≥ 70"),
    FigureKind(CALLS_OF["chat"], digits=3, least=1.0, most=1.0, bar="1"),
    FigureKind(CALLS_OF["embeddings"], digits=3, least=1.0, most=1.0, bar="1"),
    FigureKind(f"{START_WHEN_IDLE}, p50", "ms", most=50.0, bar="≤ 50 ms"),
    FigureKind(MEMORY_GROWTH, "%", most=10.0, bar=f"≤ 10 % over {LONG_RUN:,}"),
    FigureKind(CPU_OF["model"], "ms"),
    FigureKind(CPU_OF["driver"], "ms"),
    FigureKind(FLOOR_CPU, "ms", digits=2),
    FigureKind(BY_FLOOR),
    FigureKind(FLOOR_RATE, digits=0),
    FigureKind(f"{END_UNDER_LOAD}, p50", "ms", digits=0),
    FigureKind(f"{END_UNDER_LOAD}, p95", "ms", digits=0),
    FigureKind(f"{START_WHEN_IDLE}, p95", "ms"),
    FigureKind(f"{END_WHEN_IDLE}, p50", "ms"),
    FigureKind(f"{END_WHEN_IDLE}, p95", "ms"),
    FigureKind(MEMORY_START, "MiB", digits=0),
    FigureKind(MEMORY_WARM, "MiB", digits=0),
    FigureKind(MEMORY_END, "MiB", digits=0),
    FigureKind(MEMORY_PER_1000, "MiB", digits=2),
)
"""Every figure of a run, those with a bar first."""


def spread(name: str, times: Sequence[float]) -> dict[str, float]:
    """The middle of some times, and what 95 of 100 stay below."""
    return {f"{name}, p50": statistics.median(times), f"{name}, p95": percentile(times, 0.95)}


def resident_memory(samples: Sequence[Sample], transcripts: int) -> dict[str, float]:
    """Resident memory of the services, from samples in order."""
    warm = next(s for s in samples if s.done >= _WARM_SHARE * transcripts)
    first, last = samples[0], samples[-1]
    growth = last.resident - warm.resident
    return {
        MEMORY_START: first.resident / _MIB,
        MEMORY_WARM: warm.resident / _MIB,
        MEMORY_END: last.resident / _MIB,
        MEMORY_GROWTH: 100 * growth / warm.resident,
        MEMORY_PER_1000: 1_000 * growth / _MIB / max(last.done - warm.done, 1),
    }


def throughput_part(title: str, figures: Mapping[str, float], transcripts: int) -> ResultPart:
    """The figures of a run with their bars; a short run is not judged by its memory."""
    bars, rows = [], []
    for kind in KINDS:
        value = figures[kind.name]
        if not kind.bar:
            rows.append((kind.name, kind.shown(value)))
            continue
        judged = kind.name != MEMORY_GROWTH or transcripts >= LONG_RUN
        met = kind.judged(value) if judged else None
        bars.append(JudgedBar("P5", kind.name, kind.shown(value), kind.bar, met))
    table = FigureTable(f"What it consists of: {title}", ("figure", "measured"), rows)
    return ResultPart(title, figures, [table], bars)
