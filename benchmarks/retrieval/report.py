"""A run's figures as tables, for a terminal and for `benchmarks/README.md`, and its bars.

    python -m benchmarks.retrieval.report FILE.json

prints the tables of the README from the JSON that a run has written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.report import JudgedBar, bars_table, markdown, noise, table
from benchmarks.retrieval.figures import (
    NO_SIZE,
    SUBJECTS,
    IsolationCost,
    LatencyFigures,
    MeasurementConditions,
    Recall,
    RetrievalReport,
    Start,
)

BUSY = 0.9
"""Share of a core from which on the calling process may have been the bottleneck."""
TIMES_FLOOR: Mapping[int, float] = {200: 1.6, 2_000: 1.5}
TIMES_STORE = 1.2
TIMES_SELECT = 2.2
TIMES_SEARCH = 1.4
WALLS_MS = 0.4
COLD_SECONDS, WARM_SECONDS = 15.0, 5.0
EXACT_UP_TO = 2_000
"""Memories of a user up to which nothing may be missed."""
RECALL_ABOVE = 0.98


def bars(report: RetrievalReport) -> list[JudgedBar]:
    """All bars (design, section 6), in order; none where the machine was busy."""
    if noise(report.machine):
        return []
    return [
        _floor("P1", report, 200),
        _floor("P2", report, 2_000),
        *_store(report),
        *_context(report),
        *_start(report),
        _walls(report),
        *_recall(report),
    ]


def _floor(name: str, report: RetrievalReport, size: int) -> JudgedBar:
    search = _alone(report, "search", size)
    times = report.times_the_floor(search) if search else None
    figure = f"SearchMemories, {size:,} memories a user, p50 by that of its floor"
    return JudgedBar.limit(name, figure, times, TIMES_FLOOR[size], "×")


def _store(report: RetrievalReport) -> Iterator[JudgedBar]:
    stores = sorted({row.place.store for row in report.rows})
    small, large = stores[0], stores[-1]
    for size in sorted({row.place.size for row in report.rows if row.subject == "search"}):
        before = _alone(report, "search", size)
        after = _alone(report, "search", size, store=large) if large > small else None
        times = after.p50 / before.p50 if before and after else None
        figure = (
            f"SearchMemories, {size:,} memories a user, p50 in the large store by the small one's"
        )
        yield JudgedBar.limit("P3", figure, times, TIMES_STORE, "×")


def _context(report: RetrievalReport) -> Iterator[JudgedBar]:
    size = min((row.place.size for row in report.rows if row.subject == "context"), default=0)
    context, query = _alone(report, "context", size), _alone(report, "context_query", size)
    search = _alone(report, "search", size)
    times = report.times_the_floor(context) if context else None
    figure = "GetContext without a query, p50 by that of gRPC + SELECT 1"
    yield JudgedBar.limit("P4", figure, times, TIMES_SELECT, "×")
    times = query.p50 / search.p50 if query and search else None
    figure = "GetContext with a query, p50 by that of SearchMemories"
    yield JudgedBar.limit("P4", figure, times, TIMES_SEARCH, "×")


def _start(report: RetrievalReport) -> Iterator[JudgedBar]:
    for how, most in (("cold", COLD_SECONDS), ("warm", WARM_SECONDS)):
        seconds = getattr(report.start, how) if report.start else None
        yield JudgedBar.limit("P6", f"start to first answer, {how}", seconds, most, "s", digits=1)


def _walls(report: RetrievalReport) -> JudgedBar:
    figure = "SearchMemories with authentication and row-level security, p50 above that without"
    walls = report.walls
    if walls is None:
        return JudgedBar.limit("walls", figure, None, WALLS_MS, "ms")
    added = walls.walled - walls.open
    measured = f"{added:.2f} ms ({walls.walled / walls.open:.2f} ×)"
    return JudgedBar("walls", figure, measured, f"≤ {WALLS_MS:g} ms", round(added, 3) <= WALLS_MS)


def _recall(report: RetrievalReport) -> Iterator[JudgedBar]:
    for found in report.recall:
        size = f"{found.size:,} memories a user"
        yield JudgedBar(
            "Q2",
            f"complete replies to filtered searches, {size}",
            f"{found.complete:,} of {found.searches:,}",
            "all",
            found.complete == found.searches,
        )
        exact = found.size <= EXACT_UP_TO
        least, bar = min(found.recall, found.unfiltered), 1.0 if exact else RECALL_ABOVE
        shown = "1" if exact else f"≥ {RECALL_ABOVE:g}"
        yield JudgedBar("Q2", f"recall by brute force, {size}", f"{least:.4f}", shown, least >= bar)


def _alone(
    report: RetrievalReport, subject: str, size: int, store: int | None = None
) -> LatencyFigures | None:
    """The row of a single caller and an embedder without delay; in the small store by default."""
    wanted = store if store is not None else min(row.place.store for row in report.rows)
    return report.find(subject, size=size, store=wanted, callers=1, delay_ms=0)


COLUMNS = (
    "what",
    "memories a user",
    "callers",
    "p50 / p95 / p99 ms",
    "requests/s",
    "CPU ms: service / Postgres",
    "× floor",
)


def show(report: RetrievalReport, console: Console) -> None:
    """Print what was measured, then what has a bar."""
    cells = [_cells(report, row) for row in report.rows]
    console.print(table("what was measured", COLUMNS, cells, left=2))
    console.print(noise(report.machine) or bars_table("bars", bars(report)))
    if any(row.caller_share >= BUSY for row in report.rows):
        console.print("* the calling process used nearly a whole core: figures are bounded by it")
    for name, value in report.machine.items():
        console.print(f"{name}: {value}")


def tables(report: RetrievalReport) -> str:
    """The tables of the README: what has a bar, then all rows."""
    said = {True: "{}", False: "**{}** (missed)", None: "not measured"}
    judged = (
        (bar.name, bar.figure, said[bar.met].format(bar.measured), bar.bar) for bar in bars(report)
    )
    why = noise(report.machine)
    first = [why] if why else markdown(("bar", "figure", "measured", "bar is"), judged)
    rows = markdown(COLUMNS, (_cells(report, row) for row in report.rows))
    return "\n".join([*first, "", *rows])


def _cells(report: RetrievalReport, row: LatencyFigures) -> Sequence[str]:
    times, faults = report.times_the_floor(row), _faults(row)
    return (
        SUBJECTS[row.subject] + (f" ({faults})" if faults else ""),
        _users(report, row.place),
        str(row.place.callers),
        f"{row.p50:.1f} / {row.p95:.1f} / {row.p99:.1f}",
        f"{row.per_second:,.0f}{'*' if row.caller_share >= BUSY else ''}",
        f"{row.cpu_ms['service']:.2f} / {row.cpu_ms['postgres']:.2f}",
        "" if times is None else f"{times:.1f}",
    )


def _faults(row: LatencyFigures) -> str:
    return ", ".join(f"{count} of {row.looked_at} {what}" for what, count in row.faults.items())


def _users(report: RetrievalReport, place: MeasurementConditions) -> str:
    if place.size == NO_SIZE:
        return "any"
    parts = [f"{place.size:,}"]
    if place.delay_ms:
        parts.append(f"embedding {place.delay_ms} ms")
    if place.store != min(row.place.store for row in report.rows):
        parts.append(f"of {place.store:,}, {place.spread:,} users ask")
    return ", ".join(parts)


def as_json(report: RetrievalReport) -> dict[str, Any]:
    """Every figure, and the bars."""
    return asdict(report) | {"bars": [asdict(bar) for bar in bars(report)]}


def read_report(figures: Mapping[str, Any]) -> RetrievalReport:
    """The report that was written as JSON."""
    return RetrievalReport(
        rows=[
            LatencyFigures(**{**row, "place": MeasurementConditions(**row["place"])})
            for row in figures["rows"]
        ],
        limit=figures["limit"],
        start=Start(**figures["start"]) if figures["start"] else None,
        recall=[Recall(**found) for found in figures["recall"]],
        machine=figures["machine"],
        walls=IsolationCost(**figures["walls"]) if figures["walls"] else None,
    )


def by_name(figures: Mapping[str, Any]) -> dict[str, float]:
    """The figures of `as_json` that two runs are compared by."""
    report = read_report(figures)
    found: dict[str, float] = {}
    for row in report.rows:
        name = f"{SUBJECTS[row.subject]}, {_users(report, row.place)}, {row.place.callers} callers"
        found[f"{name}: p50 ms"] = row.p50
        found[f"{name}: CPU ms of the service"] = row.cpu_ms["service"]
        if (times := report.times_the_floor(row)) is not None:
            found[f"{name}: × floor"] = times
    return found


if __name__ == "__main__":
    print(tables(read_report(json.loads(Path(sys.argv[1]).read_text("utf-8")))))
