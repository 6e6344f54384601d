"""A run's figures as tables."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.table import Table

from benchmarks.results import noise
from benchmarks.retrieval.bars import bars
from benchmarks.retrieval.figures import (
    NO_SIZE,
    SUBJECTS,
    LatencyFigures,
    MeasurementConditions,
    RetrievalReport,
)

BUSY = 0.9
"""Share of a core from which on the calling process may have been the bottleneck."""


def print_tables(report: RetrievalReport, console: Console) -> None:
    """Print what was measured, then what has a bar."""
    for place, rows in groupby(report.rows, key=lambda row: row.place):
        console.print(_table(report, place, list(rows)))
    console.print(noise(report.machine) or _bars(report))
    if any(row.caller_share >= BUSY for row in report.rows):
        console.print("* the calling process used nearly a whole core: figures are bounded by it")
    for name, value in report.machine.items():
        console.print(f"{name}: {value}")


def _bars(report: RetrievalReport) -> Table:
    table = Table(title="bars", title_justify="left")
    table.add_column("")
    table.add_column("figure")
    for name in ("measured", "bar"):
        table.add_column(name, justify="right")
    table.add_column("")
    for bar in bars(report):
        said = "-" if bar.met is None else ("met" if bar.met else "MISSED")
        table.add_row(bar.name, bar.figure, bar.measured, bar.bar, said)
    return table


def _table(
    report: RetrievalReport, place: MeasurementConditions, rows: list[LatencyFigures]
) -> Table:
    table = Table(title=_title(place), title_justify="left")
    table.add_column("subject", no_wrap=True)
    for name in ("p50 ms", "p95", "p99", "requests/s"):
        table.add_column(name, justify="right")
    for name in ("service", "Postgres", "embedder", "caller"):
        table.add_column(f"{name}\nCPU ms", justify="right")
    for name in ("embedding\ncalls", "MiB", "× floor"):
        table.add_column(name, justify="right")
    table.add_column("faults")
    for row in rows:
        times = report.times_the_floor(row)
        table.add_row(
            SUBJECTS[row.subject],
            f"{row.p50:.2f}",
            f"{row.p95:.2f}",
            f"{row.p99:.2f}",
            f"{row.per_second:,.0f}{'*' if row.caller_share >= BUSY else ''}",
            *(f"{row.cpu_ms[name]:.2f}" for name in ("service", "postgres", "embedder", "caller")),
            f"{row.embedding_calls:.2f}",
            f"{row.resident_mib:.0f}",
            "-" if times is None else f"{times:.2f}",
            ", ".join(f"{count} of {row.looked_at} {what}" for what, count in row.faults.items()),
        )
    return table


def _title(place: MeasurementConditions) -> str:
    if place.size == NO_SIZE:
        return f"{place.callers} caller(s), whatever the store"
    return (
        f"{place.callers} caller(s), {place.size:,} memories a user, {place.store:,} in all, "
        f"{place.spread} user(s) ask, embedding takes {place.delay_ms} ms"
    )
