"""The bars that a run is held to (design, section 6), and whether it met them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.results import noise
from benchmarks.retrieval.figures import LatencyFigures, RetrievalReport

TIMES_FLOOR: Mapping[int, float] = {200: 1.6, 2_000: 1.5}
TIMES_STORE = 1.2
TIMES_SELECT = 2.2
TIMES_SEARCH = 1.4
WALLS_MS = 0.4
COLD_SECONDS, WARM_SECONDS = 15.0, 5.0
EXACT_UP_TO = 2_000
"""Memories of a user up to which nothing may be missed."""
RECALL_ABOVE = 0.98


@dataclass(frozen=True, slots=True)
class LatencyBar:
    """One bar: its name, what was compared, both as they are told, and whether it was met.

    `met` is None where the run did not measure what it takes.
    """

    name: str
    figure: str
    measured: str
    bar: str
    met: bool | None


def bars(report: RetrievalReport) -> list[LatencyBar]:
    """All bars, in order; none where the machine was busy (`benchmarks.results`)."""
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


def _floor(name: str, report: RetrievalReport, size: int) -> LatencyBar:
    search = _alone(report, "search", size)
    times = report.times_the_floor(search) if search else None
    return _times(
        name,
        f"SearchMemories, {size:,} memories a user, p50 by that of its floor",
        times,
        TIMES_FLOOR[size],
    )


def _store(report: RetrievalReport) -> Iterator[LatencyBar]:
    stores = sorted({row.place.store for row in report.rows})
    sizes = sorted({row.place.size for row in report.rows if row.subject == "search"})
    small, large = stores[0], stores[-1]
    for size in sizes:
        times = None
        if large > small:
            before = _alone(report, "search", size, store=small)
            after = _alone(report, "search", size, store=large)
            times = after.p50 / before.p50 if before and after else None
        yield _times(
            "P3",
            f"SearchMemories, {size:,} memories a user, p50 in the large store by the small one's",
            times,
            TIMES_STORE,
        )


def _context(report: RetrievalReport) -> Iterator[LatencyBar]:
    size = min((row.place.size for row in report.rows if row.subject == "context"), default=0)
    context, query = _alone(report, "context", size), _alone(report, "context_query", size)
    search = _alone(report, "search", size)
    yield _times(
        "P4",
        "GetContext without a query, p50 by that of gRPC + SELECT 1",
        report.times_the_floor(context) if context else None,
        TIMES_SELECT,
    )
    yield _times(
        "P4",
        "GetContext with a query, p50 by that of SearchMemories",
        query.p50 / search.p50 if query and search else None,
        TIMES_SEARCH,
    )


def _start(report: RetrievalReport) -> Iterator[LatencyBar]:
    start = report.start
    for how, seconds, bar in (
        ("cold", start.cold if start else None, COLD_SECONDS),
        ("warm", start.warm if start else None, WARM_SECONDS),
    ):
        yield LatencyBar(
            "P6",
            f"start to first answer, {how}",
            "-" if seconds is None else f"{seconds:.1f} s",
            f"≤ {bar:g} s",
            None if seconds is None else seconds <= bar,
        )


def _walls(report: RetrievalReport) -> LatencyBar:
    walls = report.walls
    added = walls.walled - walls.open if walls else None
    return LatencyBar(
        "walls",
        "SearchMemories with authentication and row-level security, p50 above that without",
        "-" if walls is None else f"{added:.2f} ms ({walls.walled / walls.open:.2f} ×)",
        f"≤ {WALLS_MS:g} ms",
        None if added is None else round(added, 3) <= WALLS_MS,
    )


def _recall(report: RetrievalReport) -> Iterator[LatencyBar]:
    for found in report.recall:
        yield LatencyBar(
            "Q2",
            f"complete replies to filtered searches, {found.size:,} memories a user",
            f"{found.complete:,} of {found.searches:,}",
            "all",
            found.complete == found.searches,
        )
        exact = found.size <= EXACT_UP_TO
        least = min(found.recall, found.unfiltered)
        yield LatencyBar(
            "Q2",
            f"recall by brute force, {found.size:,} memories a user",
            f"{least:.4f}",
            "1" if exact else f"≥ {RECALL_ABOVE:g}",
            least >= (1.0 if exact else RECALL_ABOVE),
        )


def _alone(
    report: RetrievalReport, subject: str, size: int, store: int | None = None
) -> LatencyFigures | None:
    """The row of a single caller and an embedder without delay; in the small store by default."""
    wanted = store if store is not None else min(row.place.store for row in report.rows)
    return report.find(subject, size=size, store=wanted, callers=1, delay_ms=0)


def _times(name: str, figure: str, times: float | None, bar: float) -> LatencyBar:
    return LatencyBar(
        name,
        figure,
        "-" if times is None else f"{times:.2f} ×",
        f"≤ {bar:g} ×",
        None if times is None else times <= bar,
    )
