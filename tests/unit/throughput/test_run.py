"""The P5 benchmark as a whole, with next to nothing to measure."""

from __future__ import annotations

import argparse

from benchmarks.command import heard_by
from benchmarks.throughput import KINDS, measure

GIVEN = argparse.Namespace(
    transcripts=6, users=3, services=1, in_flight=4, warm_up=2, idle=2, floor=4
)


async def test_a_tiny_run_has_every_figure_and_one_call_of_each_kind_per_transcript() -> None:
    told: list[tuple[str, int, int]] = []

    with heard_by(lambda *seen: told.append(seen)):
        result = await measure(GIVEN)

    figures = {key: result.parts[0].figures[kind.name] for key, kind in KINDS.items()}
    assert len(figures) == len(result.parts[0].figures)
    assert figures["chat_calls"] == figures["embeddings_calls"] == 1.0
    for key in ("service_cpu", "rate", "floor_cpu"):
        assert figures[key] > 0
    for key in ("idle_start", "idle_end"):
        assert 0 < figures[f"{key}_p50"] <= figures[f"{key}_p95"]
    for key in ("memory_before", "memory_warm", "memory_end"):
        assert figures[key] > 10
    assert {phase for phase, _, _ in told} == {"starting", "warm-up", "load", "idle", "floor"}
    assert ("load", 6, 6) in told
