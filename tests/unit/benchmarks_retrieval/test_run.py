"""The retrieval benchmark as a whole, with next to nothing to measure."""

from __future__ import annotations

import pytest

from benchmarks.command import heard_by
from benchmarks.retrieval import measure, plan
from benchmarks.retrieval.plan import RetrievalOptions
from benchmarks.retrieval.report import OPEN, WALLED
from benchmarks.retrieval.stage import staged

OPTIONS = RetrievalOptions(
    sizes=(40,), callers=(1, 2), seconds=0.1, extras=False, start=False, recall=5
)


async def test_a_tiny_run_has_every_figure_and_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two people with forty memories each ask: loading them takes most of the time.
    monkeypatch.setitem(plan.COUNTS, 40, 2)
    # Nobody reads the figures: all processes are kept busy for a moment only.
    monkeypatch.setattr(measure, "_WARM_UP_SECONDS", 0.02)
    monkeypatch.setattr(measure, "_WALLS_WARM_UP_SECONDS", 0.02)
    monkeypatch.setattr(measure, "_SLICES", 2)
    monkeypatch.setattr(measure, "_TURNS", 2)
    told: list[tuple[str, int, int]] = []

    with heard_by(lambda *seen: told.append(seen)):
        async with staged(OPTIONS) as stage:
            found = await measure.measure_stores(stage, {})

    subjects = {"floor_echo", "floor_select", "floor_search", "search", "search_vector"}
    assert {row.subject for row in found.rows} == subjects | {"context", "context_query"}
    assert {row.place.callers for row in found.rows} == {1, 2}
    for row in found.rows:
        assert row.faults == {}
        assert row.per_second > 0
        assert 0 < row.p50 <= row.p95 <= row.p99
        assert set(row.cpu_ms) == {"service", "postgres", "embedder", "caller"}
    search = found.single("search", 40)
    assert search is not None
    assert found.times_the_floor(search) is not None
    assert [(each.size, each.users, each.searches) for each in found.recall] == [(40, 2, 10)]
    assert (found.recall[0].complete, found.recall[0].recall) == (10, 1.0)
    assert found.alone[WALLED] > 0 < found.alone[OPEN]
    assert ("loading", 80, 80) in told
    for phase in ("measuring", "walls"):
        last = [each for each in told if each[0] == phase][-1]
        assert last[1] == last[2]
