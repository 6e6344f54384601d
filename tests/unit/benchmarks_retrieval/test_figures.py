"""What the benchmark sends and sees, and how it makes figures of that and judges them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from benchmarks.report import JudgedBar, percentile
from benchmarks.retrieval.caller import RequestStream
from benchmarks.retrieval.plan import NO_SIZE, MeasurementConditions
from benchmarks.retrieval.recall import share_of_nearest
from benchmarks.retrieval.report import (
    COLD,
    OPEN,
    WALLED,
    WARM,
    LatencyFigures,
    Recall,
    RetrievalMeasurements,
    retrieval_part,
)
from hitherto.v1 import memory_pb2, retrieval_service_pb2, search_pb2

SMALL, LARGE = 20_000, 1_000_000


def row(
    subject: str, p50: float, *, size: int = 200, store: int = SMALL, **place: int
) -> LatencyFigures:
    where = {"store": store, "size": size, "callers": 1, "delay_ms": 0, "spread": 20, **place}
    return LatencyFigures(
        subject=subject, place=MeasurementConditions(**where), p50=p50, p95=2 * p50, p99=3 * p50,
        per_second=1_000 / p50, caller_share=0.2, looked_at=10, faults={},
        cpu_ms={"service": 0.5, "postgres": 0.4, "embedder": 0.1, "caller": 0.2},
    )  # fmt: skip


REPORT = RetrievalMeasurements(
    rows=[
        row("floor_echo", 0.3, size=NO_SIZE, spread=1),
        row("floor_select", 1.0),
        row("floor_search", 2.0),
        row("search", 3.2),
        row("context", 2.2),
        row("context_query", 5.76),
        row("floor_search", 5.0, size=2_000),
        row("search", 7.5, size=2_000),
        row("floor_select", 1.0, size=2_000),
        row("floor_search", 150.0, delay_ms=150),
        row("search", 150.0, delay_ms=150),
        row("floor_select", 2.0, store=LARGE),
        row("search", 7.68, store=LARGE),
        row("floor_select", 0.5, size=2_000, store=LARGE),
        row("search", 4.5, size=2_000, store=LARGE),
        row("floor_search", 2.0, store=LARGE, spread=980),
        row("search", 5.6, store=LARGE, spread=980),
    ],
    recall=[
        Recall(size=2_000, users=3, searches=150, complete=150, recall=1.0),
        Recall(size=10_000, users=1, searches=50, complete=50, recall=0.98),
    ],
    alone={COLD: 15.0, WARM: 5.0, WALLED: 4.4, OPEN: 4.0},
)


def with_row(changed: LatencyFigures) -> RetrievalMeasurements:
    kept = [r for r in REPORT.rows if (r.subject, r.place) != (changed.subject, changed.place)]
    return replace(REPORT, rows=[*kept, changed])


def with_alone(**changed: float) -> RetrievalMeasurements:
    return replace(REPORT, alone={**REPORT.alone, **changed})


def judged(report: RetrievalMeasurements) -> Mapping[tuple[str, bool | None], list[JudgedBar]]:
    found: dict[tuple[str, bool | None], list[JudgedBar]] = {}
    for bar in retrieval_part(report).bars:
        found.setdefault((bar.name, bar.met), []).append(bar)
    return found


def test_a_row_is_compared_with_the_floor_of_its_own_place() -> None:
    search, late = REPORT.rows[3], REPORT.rows[10]
    assert (REPORT.times_the_floor(search), REPORT.times_the_floor(late)) == (1.6, 1.0)
    context = REPORT.single("context", 200)
    assert (REPORT.times_the_floor(context), REPORT.times_the_floor(REPORT.rows[0])) == (2.2, None)
    assert REPORT.times_the_floor(row("search", 4.0, callers=8)) is None


def test_a_run_at_its_bars_meets_them_all() -> None:
    found = retrieval_part(REPORT).bars
    assert [bar for bar in found if bar.met is not True] == []
    assert [bar.name for bar in found] == [
        *("P1", "P2", "P3", "P3", "P3", "P4", "P4", "P6", "P6", "walls"),
        *("Q2",) * 4,
    ]


def test_a_run_beyond_a_bar_says_so() -> None:
    for worse, name in [
        (with_row(row("search", 3.21)), "P1"),
        (with_row(row("search", 7.51, size=2_000)), "P2"),
        (with_row(row("search", 4.51, size=2_000, store=LARGE)), "P3"),
        (with_row(row("search", 5.61, store=LARGE, spread=980)), "P3"),
        (with_row(row("context", 2.21)), "P4"),
        (with_row(row("context_query", 5.77)), "P4"),
        (with_alone(**{COLD: 15.1}), "P6"),
        (with_alone(**{WARM: 5.1}), "P6"),
        (with_alone(**{WALLED: 4.41}), "walls"),
        (replace(REPORT, recall=[replace(REPORT.recall[0], complete=149)]), "Q2"),
        (replace(REPORT, recall=[replace(REPORT.recall[0], recall=0.9999)]), "Q2"),
        (replace(REPORT, recall=[replace(REPORT.recall[1], recall=0.9799)]), "Q2"),
    ]:
        assert len(judged(worse)[name, False]) == 1
        assert all(met is not False for bar, met in judged(worse) if bar != name)


# What the retrieval benchmark sends, and how it looks at the replies.


USERS = ("p200-0", "p200-1")


def found(results: int, *, degraded: bool = False) -> bytes:
    return retrieval_service_pb2.SearchMemoriesResponse(
        results=[search_pb2.SearchResult(score=0.5)] * results, degraded=degraded
    ).SerializeToString()


def test_a_reply_that_is_degraded_or_short_is_a_fault() -> None:
    asking = RequestStream("search", USERS, "", 2)
    assert (asking.fault(found(2)), asking.fault(found(1))) == ("", "too few")
    assert asking.fault(found(2, degraded=True)) == "degraded"
    floor = RequestStream("floor_search", USERS, "", 2)
    assert (floor.fault(b"\0" * 32), floor.fault(b"\0" * 16)) == ("", "too few")


def test_a_context_without_what_was_asked_for_is_a_fault() -> None:
    context = retrieval_service_pb2.GetContextResponse(memories=[memory_pb2.Memory(id="m")])
    without = context.SerializeToString()
    assert RequestStream("context", USERS, "", 2).fault(without) == ""
    assert RequestStream("context_query", USERS, "", 2).fault(without) == "empty"
    assert RequestStream("context", USERS, "", 2).fault(b"") == "empty"
    context.nothing_relevant = True
    below_the_floor = context.SerializeToString()
    assert RequestStream("context_query", USERS, "", 2).fault(below_the_floor) == ""
    context.degraded = True
    assert RequestStream("context", USERS, "", 2).fault(context.SerializeToString()) == "degraded"


def test_the_share_of_the_nearest() -> None:
    cosines = np.array([0.9, 0.8, 0.7, 0.2, -0.1, -0.3], dtype=np.float32)
    for allowed, returned, limit, share in [
        ([True] * 6, [0, 1], 2, 1.0),
        ([True] * 6, [0, 2], 2, 0.5),
        ([True] * 6, [0, 0], 2, 0.5),
        ([True] * 6, [], 2, 0.0),
        ([False, *[True] * 5], [1, 2], 2, 1.0),
        # The best one is not let through, so it counts for nothing.
        ([False, *[True] * 5], [0, 1], 2, 0.5),
        # Below 0 one is as good as another.
        ([True] * 6, [0, 1, 2, 3, 5], 5, 1.0),
        ([False] * 6, [], 2, 1.0),
    ]:
        found = share_of_nearest(cosines, np.array(allowed), returned, limit)
        assert found == share, (allowed, returned)


def test_a_percentile_is_a_time_that_was_seen() -> None:
    times = [float(n) for n in range(100, 0, -1)]
    assert [percentile(times, share) for share in (0.5, 0.95, 0.99)] == [50.0, 95.0, 99.0]
    assert percentile([7.0], 0.01) == percentile([7.0], 0.99) == 7.0
