"""The retrieval benchmark as a whole, with next to nothing to measure."""

from __future__ import annotations

from benchmarks.retrieval.measure import measure
from benchmarks.retrieval.plan import RetrievalOptions

OPTIONS = RetrievalOptions(
    sizes=(200,), callers=(1, 2), seconds=0.2, extras=False, start=False, recall=5
)


async def test_a_tiny_run_has_every_figure_and_no_fault() -> None:
    told: list[tuple[str, int, int]] = []

    report = await measure(OPTIONS, lambda *seen: told.append(seen))

    subjects = {"floor_echo", "floor_select", "floor_search", "search", "search_vector"}
    assert {row.subject for row in report.rows} == subjects | {"context", "context_query"}
    assert {row.place.callers for row in report.rows} == {1, 2}
    for row in report.rows:
        assert row.faults == {}
        assert row.requests > 0
        assert 0 < row.p50 <= row.p95 <= row.p99
        assert row.resident_mib > 10
        assert set(row.cpu_ms) == {"service", "postgres", "embedder", "caller"}
        # No query is asked twice, so each is embedded; callers may share a call.
        asked = row.subject in {"floor_search", "search", "context_query"}
        assert (row.embedding_calls > 0) == asked
        assert row.embedding_calls == asked or row.place.callers > 1
    search = report.find("search", callers=1)
    assert search is not None
    assert report.times_the_floor(search) is not None
    assert [(found.size, found.users, found.searches) for found in report.recall] == [
        (200, 20, 100)
    ]
    assert report.recall[0].complete == 100
    assert report.recall[0].unfiltered == report.recall[0].recall == 1.0
    assert report.start is None
    assert report.walls is not None
    assert report.walls.walled > 0 < report.walls.open
    assert ("loading", 4_000, 4_000) in told
    for phase in ("measuring", "walls"):
        last = [each for each in told if each[0] == phase][-1]
        assert last[1] == last[2]
