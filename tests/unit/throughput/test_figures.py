"""How the P5 benchmark makes figures of what it saw."""

from __future__ import annotations

import io
from collections.abc import Mapping

from rich.console import Console

from benchmarks.report import BenchmarkResult, show_result
from benchmarks.throughput import KINDS, throughput_part

FIGURES = dict.fromkeys(KINDS, 1.0) | {
    "service_cpu": 12.0,
    "postgres_cpu": 7.0,
    "rate": 70.0,
    "idle_start_p50": 50.0,
    "memory_growth": 10.0,
}


def printed(changed: Mapping[str, float] | None = None, transcripts: int = 20_000) -> str:
    part = throughput_part("a run", FIGURES | dict(changed or {}), transcripts)
    out = io.StringIO()
    show_result(BenchmarkResult("throughput", [part]), Console(file=out, width=140))
    return out.getvalue()


def test_a_run_at_its_bars_misses_none() -> None:
    told = printed()
    assert "MISSED" not in told
    assert told.count(" met ") == 7
    assert KINDS["by_floor"].name in told


def test_a_run_beyond_a_bar_says_so() -> None:
    for name, value in [
        ("service_cpu", 12.1), ("postgres_cpu", 7.1), ("rate", 69.9), ("chat_calls", 1.001),
        ("embeddings_calls", 0.999), ("idle_start_p50", 50.1), ("memory_growth", 10.1),
    ]:  # fmt: skip
        assert printed({name: value}).count("MISSED") == 1


def test_a_short_run_is_not_judged_by_its_memory() -> None:
    assert "MISSED" not in printed({"memory_growth": 350.0}, transcripts=100)
