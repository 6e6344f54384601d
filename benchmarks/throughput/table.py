"""A run's figures as tables."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks.results import noise
from benchmarks.throughput.figures import (
    CPU_MS_AIM,
    CPU_MS_BAR,
    FLAT_PERCENT,
    IDLE_MS_BAR,
    LONG_RUN,
    PER_SECOND_BAR,
    POSTGRES_CPU_MS_BAR,
    ThroughputReport,
)


def print_tables(report: ThroughputReport, console: Console) -> None:
    """Print what has a bar, then what explains it; on a busy machine no bar is met or missed."""
    if why := noise(report.machine):
        console.print(why)
    console.print(_bars(report, held=not why))
    console.print(_more(report))


def _bars(report: ThroughputReport, *, held: bool) -> Table:
    table = Table(
        title=f"P5: {report.transcripts:,} transcripts, {report.users:,} users, "
        f"{report.services} service process(es)"
    )
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("bar", justify="right")
    table.add_column("")
    cpu = report.cpu_ms["service"]
    calls = report.calls_per_transcript
    memory = report.memory_mib
    rows: list[tuple[str, str, str, bool | None]] = [
        (
            "own CPU per transcript",
            f"{cpu:.1f} ms",
            f"≤ {CPU_MS_BAR:g} ms (aim {CPU_MS_AIM:g})",
            cpu <= CPU_MS_BAR,
        ),
        (
            "CPU of Postgres per transcript",
            f"{report.cpu_ms['postgres']:.1f} ms",
            f"≤ {POSTGRES_CPU_MS_BAR:g} ms",
            report.cpu_ms["postgres"] <= POSTGRES_CPU_MS_BAR,
        ),
        (
            "transcripts per second",
            f"{report.per_second:.1f}",
            f"≥ {PER_SECOND_BAR:g}",
            report.per_second >= PER_SECOND_BAR,
        ),
        (
            "LLM calls per transcript",
            f"{calls['chat']:.3f}",
            "1",
            calls["chat"] == 1,
        ),
        (
            "embedding calls per transcript",
            f"{calls['embeddings']:.3f}",
            "1",
            calls["embeddings"] == 1,
        ),
        (
            "acceptance to start when idle, p50",
            f"{report.idle_start_ms.p50:.1f} ms",
            f"≤ {IDLE_MS_BAR:g} ms",
            report.idle_start_ms.p50 <= IDLE_MS_BAR,
        ),
        (
            "resident memory after warm-up",
            f"{memory.growth_percent:+.1f} %",
            f"≤ {FLAT_PERCENT:g} % over {LONG_RUN:,}",
            memory.growth_percent <= FLAT_PERCENT if report.transcripts >= LONG_RUN else None,
        ),
    ]
    for name, measured, bar, met in rows:
        unjudged = met is None or not held
        table.add_row(name, measured, bar, "-" if unjudged else ("met" if met else "MISSED"))
    return table


def _more(report: ThroughputReport) -> Table:
    table = Table(title="what it consists of", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, spent in report.cpu_ms.items():
        table.add_row(f"CPU per transcript, {name}", f"{spent:.2f} ms")
    floor = report.floor
    table.add_row("CPU per transcript, floor", f"{floor.cpu_ms:.2f} ms")
    table.add_row("service by floor", f"{report.times_the_floor:.1f}")
    table.add_row("floor, transcripts per second", f"{floor.per_second:.0f}")
    table.add_row(
        f"acceptance to end, {report.in_flight} in flight, p50 / p95",
        f"{report.latency_ms.p50:.0f} / {report.latency_ms.p95:.0f} ms",
    )
    table.add_row(
        "acceptance to start when idle, p50 / p95",
        f"{report.idle_start_ms.p50:.1f} / {report.idle_start_ms.p95:.1f} ms",
    )
    table.add_row(
        "acceptance to end when idle, p50 / p95",
        f"{report.idle_end_ms.p50:.1f} / {report.idle_end_ms.p95:.1f} ms",
    )
    memory = report.memory_mib
    table.add_row(
        "resident memory, start / warm / end",
        f"{memory.start:.0f} / {memory.warm:.0f} / {memory.end:.0f} MiB",
    )
    table.add_row("growth once warm", f"{memory.per_1000:+.2f} MiB per 1,000 transcripts")
    for name, value in report.machine.items():
        table.add_row(name, str(value))
    return table
