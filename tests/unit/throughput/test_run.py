"""The P5 benchmark as a whole, with next to nothing to measure."""

from __future__ import annotations

import argparse

from benchmarks import throughput
from benchmarks.command import heard_by
from benchmarks.throughput import measure

GIVEN = argparse.Namespace(
    transcripts=6, users=3, services=1, in_flight=4, warm_up=2, idle=2, floor=4
)


async def test_a_tiny_run_has_every_figure_and_one_call_of_each_kind_per_transcript() -> None:
    told: list[tuple[str, int, int]] = []

    with heard_by(lambda *seen: told.append(seen)):
        result = await measure(GIVEN)

    figures = result.parts[0].figures
    assert set(figures) == {kind.name for kind in throughput.KINDS}
    assert [figures[name] for name in throughput.CALLS_OF.values()] == [1.0, 1.0]
    assert figures[throughput.SERVICE_CPU] > 0
    assert figures[throughput.RATE] > 0
    for name in (throughput.END_UNDER_LOAD, throughput.START_WHEN_IDLE, throughput.END_WHEN_IDLE):
        assert 0 < figures[f"{name}, p50"] <= figures[f"{name}, p95"]
    for name in (throughput.MEMORY_START, throughput.MEMORY_WARM, throughput.MEMORY_END):
        assert figures[name] > 10
    assert figures[throughput.FLOOR_CPU] > 0
    assert figures[throughput.FLOOR_RATE] > 0
    assert {phase for phase, _, _ in told} == {"starting", "warm-up", "load", "idle", "floor"}
    assert ("load", 6, 6) in told
