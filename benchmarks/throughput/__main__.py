"""Runs the benchmark from the command line; see the package for what it measures."""

from __future__ import annotations

import argparse

from benchmarks.command import Benchmark, Progress, add_counts, given_options, main
from benchmarks.report import BenchmarkResult
from benchmarks.throughput.measure import ThroughputOptions, measure

_COUNTS = {
    "transcripts": "measured under load; 20000 is the long form, for memory",
    "users": "default: a quarter of the transcripts",
    "services": "processes of the extraction service",
    "in_flight": "transcripts unfinished at a time",
    "warm_up": "transcripts before anything is measured",
    "idle": "transcripts sent to the idle service",
    "floor": "calls of the floor",
}


async def _measure(given: argparse.Namespace, progress: Progress) -> BenchmarkResult:
    return await measure(ThroughputOptions(**given_options(ThroughputOptions, given)), progress)


BENCHMARK = Benchmark(
    name="throughput",
    description="Measure what an extraction costs (bar P5).",
    arguments=lambda parser: add_counts(parser, ThroughputOptions(), _COUNTS),
    measure=_measure,
)

if __name__ == "__main__":
    main(BENCHMARK)
