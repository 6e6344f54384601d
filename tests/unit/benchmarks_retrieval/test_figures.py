"""How the retrieval benchmark makes figures of what it saw, and judges them."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, replace

import pytest
from rich.console import Console

from benchmarks.report import LOAD_BEFORE, JudgedBar, percentile
from benchmarks.retrieval.figures import (
    NO_SIZE,
    IsolationCost,
    LatencyFigures,
    MeasurementConditions,
    Recall,
    RetrievalReport,
    Start,
)
from benchmarks.retrieval.report import bars, read_report, tables
from benchmarks.retrieval.report import show as print_tables

SMALL, LARGE = 20_000, 1_000_000


def row(
    subject: str, p50: float, *, size: int = 200, store: int = SMALL, **place: int
) -> LatencyFigures:
    where = {"store": store, "size": size, "callers": 1, "delay_ms": 0, "spread": 20, **place}
    return LatencyFigures(
        subject=subject,
        place=MeasurementConditions(**where),
        requests=100,
        p50=p50,
        p95=2 * p50,
        p99=3 * p50,
        per_second=1_000 / p50,
        cpu_ms={"service": 0.5, "postgres": 0.4, "embedder": 0.1, "caller": 0.2},
        caller_share=0.2,
        embedding_calls=1.0,
        resident_mib=100.0,
        looked_at=10,
        faults={},
    )


REPORT = RetrievalReport(
    rows=[
        row("floor_echo", 0.3, size=NO_SIZE, spread=1),
        row("floor_select", 1.0),
        row("floor_search", 2.0),
        row("search", 3.2),
        row("context", 2.2),
        row("context_query", 4.47),
        row("floor_search", 5.0, size=2_000),
        row("search", 7.5, size=2_000),
        row("floor_search", 150.0, delay_ms=150),
        row("search", 150.0, delay_ms=150),
        row("search", 3.84, store=LARGE),
        row("search", 9.0, size=2_000, store=LARGE),
    ],
    limit=20,
    start=Start(cold=15.0, warm=5.0),
    recall=[
        Recall(size=2_000, users=3, searches=150, complete=150, recall=1.0, unfiltered=1.0),
        Recall(size=10_000, users=1, searches=50, complete=50, recall=0.98, unfiltered=0.99),
    ],
    machine={"python": "3.11"},
    walls=IsolationCost(size=200, walled=4.4, open=4.0),
)


def with_row(changed: LatencyFigures) -> RetrievalReport:
    kept = [r for r in REPORT.rows if (r.subject, r.place) != (changed.subject, changed.place)]
    return replace(REPORT, rows=[*kept, changed])


def judged(report: RetrievalReport) -> Mapping[tuple[str, bool | None], list[JudgedBar]]:
    found: dict[tuple[str, bool | None], list[JudgedBar]] = {}
    for bar in bars(report):
        found.setdefault((bar.name, bar.met), []).append(bar)
    return found


def test_a_percentile_is_a_time_that_was_seen() -> None:
    times = [float(n) for n in range(100, 0, -1)]
    assert percentile(times, 0.5) == 50.0
    assert percentile(times, 0.95) == 95.0
    assert percentile(times, 0.99) == 99.0
    assert percentile([7.0], 0.01) == percentile([7.0], 0.99) == 7.0
    with pytest.raises(ValueError, match="at least one"):
        percentile([], 0.5)


def test_a_row_is_compared_with_the_floor_of_its_own_place() -> None:
    search, late = REPORT.rows[3], REPORT.rows[9]
    assert REPORT.times_the_floor(search) == 1.6
    assert REPORT.times_the_floor(late) == 1.0
    context = REPORT.find("context")
    assert context is not None
    assert REPORT.times_the_floor(context) == 2.2
    assert REPORT.times_the_floor(REPORT.rows[0]) is None
    assert REPORT.times_the_floor(row("search", 4.0, callers=8)) is None


def test_a_run_at_its_bars_meets_them_all() -> None:
    found = bars(REPORT)
    assert [bar for bar in found if bar.met is not True] == []
    assert [bar.name for bar in found] == [
        *("P1", "P2", "P3", "P3", "P4", "P4", "P6", "P6", "walls"),
        *("Q2",) * 4,
    ]


@pytest.mark.parametrize(
    ("worse", "name"),
    [
        (with_row(row("search", 3.21)), "P1"),
        (with_row(row("search", 7.51, size=2_000)), "P2"),
        (with_row(row("search", 9.01, size=2_000, store=LARGE)), "P3"),
        (with_row(row("context", 2.21)), "P4"),
        (with_row(row("context_query", 4.51)), "P4"),
        (replace(REPORT, start=Start(cold=15.1, warm=5.0)), "P6"),
        (replace(REPORT, start=Start(cold=15.0, warm=5.1)), "P6"),
        (replace(REPORT, walls=IsolationCost(size=200, walled=4.41, open=4.0)), "walls"),
        (replace(REPORT, recall=[replace(REPORT.recall[0], complete=149)]), "Q2"),
        (replace(REPORT, recall=[replace(REPORT.recall[0], unfiltered=0.9999)]), "Q2"),
        (replace(REPORT, recall=[replace(REPORT.recall[1], recall=0.9799)]), "Q2"),
    ],
)
def test_a_run_beyond_a_bar_says_so(worse: RetrievalReport, name: str) -> None:
    assert len(judged(worse)[name, False]) == 1
    assert all(met is not False for bar, met in judged(worse) if bar != name)


def test_what_was_not_measured_is_not_judged() -> None:
    small = [r for r in REPORT.rows if r.place.store == SMALL and r.place.size != 2_000]
    found = judged(replace(REPORT, rows=small, start=None, recall=[], walls=None))
    assert len(found["P2", None]) == 1
    assert len(found["P3", None]) == 1
    assert len(found["P6", None]) == 2
    assert len(found["walls", None]) == 1
    assert ("Q2", True) not in found


@pytest.mark.parametrize(("load", "judges"), [(1.0, True), (1.01, False)])
def test_a_busy_machine_has_no_bars_and_says_so(load: float, judges: bool) -> None:
    report = replace(REPORT, machine={"cores": 2, LOAD_BEFORE: load})
    out = io.StringIO()
    print_tables(report, Console(file=out, width=200))
    for printed in (out.getvalue(), tables(report)):
        assert ("no bars" not in printed) == ("P1" in printed) == judges
        assert "SearchMemories" in printed
    assert bool(bars(report)) == judges


def test_the_tables_tell_every_subject_fault_and_bottleneck() -> None:
    busy = replace(row("search", 3.2), caller_share=0.95, faults={"degraded": 3})
    out = io.StringIO()
    print_tables(with_row(busy), Console(file=out, width=200))
    printed = out.getvalue()
    assert "3 of 10 degraded" in printed
    assert "312*" in printed
    assert "bounded by it" in printed
    assert "floor: SELECT 1" in printed
    assert "MISSED" not in printed


def test_the_tables_of_the_readme_come_from_what_a_run_has_written() -> None:
    faulty = replace(row("search", 5.0), faults={"degraded": 2})
    written = json.loads(json.dumps(asdict(with_row(faulty))))
    report = read_report(written)
    assert asdict(report) == written
    printed = tables(report).splitlines()
    assert "| P1 | SearchMemories, 200 memories a user, p50 by that of its floor | " in printed[2]
    assert printed[2].endswith("| **2.50 ×** (missed) | ≤ 1.6 × |")
    assert sum(line.startswith("| SearchMemories |") for line in printed) == 4
    assert sum(line.startswith("| SearchMemories (2 of 10 degraded) |") for line in printed) == 1
    assert any("| 200, of 1,000,000, 20 users ask |" in line for line in printed)
    assert any("| 200, embedding 150 ms |" in line for line in printed)
    assert any(line.startswith("| floor: echo | any | 1 |") for line in printed)
    assert len({line.count("|") for line in printed[printed.index("") + 1 :]}) == 1
