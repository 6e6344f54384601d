"""A run's figures by name, its table and its bars (design, section 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.report import FigureTable, JudgedBar, ResultPart
from benchmarks.retrieval.figures import (
    NO_SIZE,
    SUBJECTS,
    LatencyFigures,
    MeasurementConditions,
    RetrievalMeasurements,
)

BUSY = 0.9
"""Share of a core from which on the calling process may have been the bottleneck."""
EXACT_UP_TO = 2_000
"""Memories of a user up to which nothing may be missed."""
RECALL_ABOVE = 0.98
WALLS_MS = 0.4
COLD_TIMES = 2.8
"""1.2 times what it took before there were snapshots (2.3)."""
COLUMNS = (
    "what",
    "memories a user",
    "callers",
    "p50 / p95 / p99 ms",
    "requests/s",
    "CPU ms: service / Postgres",
    "× floor",
)


def retrieval_part(measured: RetrievalMeasurements) -> ResultPart:
    """The figures of a run with their bars."""
    notes = ["* the calling process used nearly a whole core: figures are bounded by it"]
    rows = [_cells(measured, row) for row in measured.rows]
    return ResultPart(
        "what a search costs",
        _figures(measured),
        [FigureTable("What was measured", COLUMNS, rows, left=2)],
        list(_bars(measured)),
        notes if any(row.caller_share >= BUSY for row in measured.rows) else (),
    )


def _figures(measured: RetrievalMeasurements) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in measured.rows:
        users = _users(measured, row.place)
        name = f"{SUBJECTS[row.subject]}, {users}, {row.place.callers} callers"
        found |= {f"{name}: {of} ms": getattr(row, of) for of in ("p50", "p95", "p99")}
        found[f"{name}: requests/s"] = row.per_second
        found |= {f"{name}: CPU ms of the {of}": ms for of, ms in row.cpu_ms.items()}
        if (times := measured.times_the_floor(row)) is not None:
            found[f"{name}: × floor"] = times
    for of in measured.recall:
        found[f"recall, filtered, {of.size:,} memories a user"] = of.recall
        found[f"recall, unfiltered, {of.size:,} memories a user"] = of.unfiltered
    if measured.start:
        found["start to first answer, cold: s"] = measured.start.cold
        found["start to first answer, warm: s"] = measured.start.warm
    if measured.walls:
        found["SearchMemories with isolation: p50 ms"] = measured.walls.walled
        found["SearchMemories without isolation: p50 ms"] = measured.walls.open
    return found


def _bars(measured: RetrievalMeasurements) -> Iterator[JudgedBar]:
    of_a_user = "memories a user, p50"
    for name, size, most in (("P1", 200, 1.6), ("P2", 2_000, 1.5)):
        times = measured.times_the_floor(measured.single("search", size))
        figure = f"SearchMemories, {size:,} {of_a_user} by that of its floor"
        yield JudgedBar.limit(name, figure, times, most, "×")
    for size in sorted({row.place.size for row in measured.rows if row.subject == "search"}):
        small = measured.times_select(measured.single("search", size))
        large = measured.times_select(measured.single("search", size, large=True))
        figure = f"SearchMemories, {size:,} {of_a_user} by SELECT 1, large store by small one"
        yield JudgedBar.limit("P3", figure, large / small if large and small else None, 1.2, "×")
    size = min((row.place.size for row in measured.rows if row.subject == "search"), default=0)
    cold = measured.single("search", size, large=True, everybody=True)
    figure = "SearchMemories, first of a user in a while, large store, p50 by that of its floor"
    yield JudgedBar.limit("P3", figure, measured.times_the_floor(cold), COLD_TIMES, "×")
    size = min((row.place.size for row in measured.rows if row.subject == "context"), default=0)
    times = measured.times_the_floor(measured.single("context", size))
    figure = "GetContext without a query, p50 by that of gRPC + SELECT 1"
    yield JudgedBar.limit("P4", figure, times, 2.2, "×")
    times = _by(measured.single("context_query", size), measured.single("search", size))
    figure = "GetContext with a query, p50 by that of SearchMemories"
    yield JudgedBar.limit("P4", figure, times, 1.4, "×")
    for how, most in (("cold", 15.0), ("warm", 5.0)):
        seconds = getattr(measured.start, how) if measured.start else None
        yield JudgedBar.limit("P6", f"start to first answer, {how}", seconds, most, "s", digits=1)
    yield _walls(measured)
    yield from _recall(measured)


def _by(row: LatencyFigures | None, other: LatencyFigures | None) -> float | None:
    return row.p50 / other.p50 if row and other else None


def _walls(measured: RetrievalMeasurements) -> JudgedBar:
    figure = "SearchMemories with authentication and row-level security, p50 above that without"
    walls = measured.walls
    if walls is None:
        return JudgedBar.limit("walls", figure, None, WALLS_MS, "ms")
    added = walls.walled - walls.open
    shown = f"{added:.2f} ms ({walls.walled / walls.open:.2f} ×)"
    return JudgedBar("walls", figure, shown, f"≤ {WALLS_MS:g} ms", round(added, 3) <= WALLS_MS)


def _recall(measured: RetrievalMeasurements) -> Iterator[JudgedBar]:
    for found in measured.recall:
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


def _cells(measured: RetrievalMeasurements, row: LatencyFigures) -> Sequence[str]:
    times = measured.times_the_floor(row)
    faults = ", ".join(f"{count} of {row.looked_at} {what}" for what, count in row.faults.items())
    return (
        SUBJECTS[row.subject] + (f" ({faults})" if faults else ""),
        _users(measured, row.place),
        str(row.place.callers),
        f"{row.p50:.1f} / {row.p95:.1f} / {row.p99:.1f}",
        f"{row.per_second:,.0f}{'*' if row.caller_share >= BUSY else ''}",
        f"{row.cpu_ms['service']:.2f} / {row.cpu_ms['postgres']:.2f}",
        "" if times is None else f"{times:.1f}",
    )


def _users(measured: RetrievalMeasurements, place: MeasurementConditions) -> str:
    if place.size == NO_SIZE:
        return "any"
    parts = [f"{place.size:,}"]
    if place.delay_ms:
        parts.append(f"embedding {place.delay_ms} ms")
    if place.store != min(row.place.store for row in measured.rows):
        parts.append(f"of {place.store:,}, {place.spread:,} users ask")
    return ", ".join(parts)
