"""What one run measured: rows held against their floors, by name, as a table, and by its bars.

The bars are those of section 6 of the design.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.report import FigureTable, JudgedBar, ResultPart
from benchmarks.retrieval.plan import FLOORS, NO_SIZE, SUBJECTS, MeasurementConditions

FLOOR_OF: Mapping[str, str] = {
    subject: "floor_select" if subject == "context" else "floor_search"
    for subject in SUBJECTS
    if subject not in FLOORS
}
"""The floor that each subject is compared with."""
COLD, WARM = (f"start to first answer, {how}: s" for how in ("cold", "warm"))
WALLED, OPEN = (f"SearchMemories {how} isolation: p50 ms" for how in ("with", "without"))
"""Figures that stand for themselves, in seconds and milliseconds."""
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


@dataclass(frozen=True, slots=True)
class LatencyFigures:
    """The figures of one subject in one place."""

    subject: str  # one of `SUBJECTS`
    place: MeasurementConditions  # where
    p50: float  # milliseconds from the request to the reply, as the caller sees it
    p95: float  # likewise
    p99: float  # likewise
    per_second: float  # requests per second
    # CPU milliseconds per request of the `service` (or floor), of `postgres`, of the `embedder` and
    # of the `caller`.
    cpu_ms: Mapping[str, float]
    # How much of one core the calling process used; near 1 it was the bottleneck.
    caller_share: float
    looked_at: int  # replies that were looked at
    faults: Mapping[str, int]  # how many of these were not what they should be, by what was wrong


@dataclass(frozen=True, slots=True)
class Recall:
    """What filtered searches returned to users of one size."""

    size: int  # memories of each user
    users: int  # how many users asked
    searches: int  # how many times all of them asked together
    complete: int  # how many replies had as many results as there were, or as were wanted
    # Share of the nearest memories, by brute force, that were found; the lowest of any user, of
    # searches with a filter or without.
    recall: float


@dataclass(frozen=True, slots=True)
class RetrievalMeasurements:
    """What one run measured."""

    rows: Sequence[LatencyFigures]  # in the order in which they were measured
    recall: Sequence[Recall] = ()  # by size; empty where it was not measured
    # Of `COLD`, `WARM`, `WALLED` and `OPEN` those that were measured.
    alone: Mapping[str, float] = field(default_factory=dict)

    def single(
        self, subject: str, size: int, *, large: bool = False, everybody: bool = False
    ) -> LatencyFigures | None:
        """The row of a single caller and an embedder without delay.

        Args:
            subject: One of `SUBJECTS`.
            size: Memories of each user.
            large: Whether in the large store or in the small one.
            everybody: Whether by the most users or by the fewest.
        """
        stores = sorted({row.place.store for row in self.rows})
        if large and len(stores) < 2:
            return None
        found = [
            row
            for row in self.rows
            if (row.subject, row.place.size, row.place.store)
            == (subject, size, stores[-1 if large else 0])
            and (row.place.callers, row.place.delay_ms) == (1, 0)
        ]
        found.sort(key=lambda row: row.place.spread)
        return found[-1 if everybody else 0] if found else None

    def times_the_floor(self, row: LatencyFigures | None, floor: str = "") -> float | None:
        """How many times as long the median call takes as that of a floor in the same place.

        The floor is that of the row, or `floor`. The work of `floor_select` depends neither on the
        user nor on the store.
        """
        if row is None:
            return None
        wanted = (floor or FLOOR_OF.get(row.subject), row.place)
        return _by(row, next((of for of in self.rows if (of.subject, of.place) == wanted), None))


def _by(row: LatencyFigures | None, other: LatencyFigures | None) -> float | None:
    return row.p50 / other.p50 if row and other else None


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
        found[f"recall, {of.size:,} memories a user"] = of.recall
    return found | dict(measured.alone)


def _bars(measured: RetrievalMeasurements) -> Iterator[JudgedBar]:
    single, times, limit = measured.single, measured.times_the_floor, JudgedBar.limit
    sizes = sorted({row.place.size for row in measured.rows if row.subject == "search"}) or [0]
    for name, size, most in (("P1", 200, 1.6), ("P2", 2_000, 1.5)):
        figure = f"SearchMemories, {size:,} memories a user, p50 by that of its floor"
        yield limit(name, figure, times(single("search", size)), most, "×")
    for size in sizes:
        small = times(single("search", size), "floor_select")
        large = times(single("search", size, large=True), "floor_select")
        figure = (
            f"SearchMemories, {size:,} memories a user, p50 by SELECT 1, large store by small one"
        )
        yield limit("P3", figure, large / small if large and small else None, 1.2, "×")
    cold = times(single("search", sizes[0], large=True, everybody=True))
    figure = "SearchMemories, first of a user in a while, large store, p50 by that of its floor"
    yield limit("P3", figure, cold, COLD_TIMES, "×")
    context, with_query = (single(kind, sizes[0]) for kind in ("context", "context_query"))
    figure = "GetContext without a query, p50 by that of gRPC + SELECT 1"
    yield limit("P4", figure, times(context), 2.2, "×")
    figure = "GetContext with a query, p50 by that of SearchMemories"
    yield limit("P4", figure, _by(with_query, single("search", sizes[0])), 1.8, "×")
    for how, name, most in (("cold", COLD, 15.0), ("warm", WARM, 5.0)):
        figure = f"start to first answer, {how}"
        yield limit("P6", figure, measured.alone.get(name), most, "s", digits=1)
    yield _walls(measured.alone)
    for recall in measured.recall:
        yield from _recall(recall)


def _walls(alone: Mapping[str, float]) -> JudgedBar:
    figure = "SearchMemories with authentication and row-level security, p50 above that without"
    if WALLED not in alone:
        return JudgedBar.limit("walls", figure, None, WALLS_MS, "ms")
    added = alone[WALLED] - alone[OPEN]
    shown = f"{added:.2f} ms ({alone[WALLED] / alone[OPEN]:.2f} ×)"
    return JudgedBar("walls", figure, shown, f"≤ {WALLS_MS:g} ms", round(added, 3) <= WALLS_MS)


def _recall(found: Recall) -> Iterator[JudgedBar]:
    size = f"{found.size:,} memories a user"
    yield JudgedBar(
        "Q2",
        f"complete replies to filtered searches, {size}",
        f"{found.complete:,} of {found.searches:,}",
        "all",
        found.complete == found.searches,
    )
    exact = found.size <= EXACT_UP_TO
    least, shown = (1.0, "1") if exact else (RECALL_ABOVE, f"≥ {RECALL_ABOVE:g}")
    figure, met = f"recall by brute force, {size}", found.recall >= least
    yield JudgedBar("Q2", figure, f"{found.recall:.4f}", shown, met)


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
