"""The P5 benchmark as a whole, with next to nothing to measure."""

from __future__ import annotations

from benchmarks.throughput.measure import ThroughputOptions, measure

OPTIONS = ThroughputOptions(transcripts=6, users=3, in_flight=4, warm_up=2, idle=2, floor=4)


async def test_a_tiny_run_has_every_figure_and_one_call_of_each_kind_per_transcript() -> None:
    told: list[tuple[str, int, int]] = []

    report = await measure(OPTIONS, lambda *seen: told.append(seen))

    assert report.calls == {"chat": 6, "embeddings": 6}
    assert report.calls_per_transcript == {"chat": 1.0, "embeddings": 1.0}
    assert set(report.cpu_ms) == {"service", "postgres", "model", "driver"}
    assert report.cpu_ms["service"] > 0
    assert report.per_second > 0
    for spread in (report.latency_ms, report.idle_start_ms, report.idle_end_ms):
        assert 0 < spread.p50 <= spread.p95
    assert min(report.memory_mib.start, report.memory_mib.warm, report.memory_mib.end) > 10
    assert report.floor.calls == 4
    assert report.floor.cpu_ms > 0
    assert report.floor.per_second > 0
    assert {phase for phase, _, _ in told} == {"starting", "warm-up", "load", "idle", "floor"}
    assert ("load", 6, 6) in told
