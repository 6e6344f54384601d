"""Compares with other memory stores from the command line; see the package for how."""

from __future__ import annotations

import argparse

from benchmarks.command import Benchmark, Progress, main
from benchmarks.peers.measuring import measure
from benchmarks.peers.running import MANY, ONE, PEERS
from benchmarks.report import BenchmarkResult
from benchmarks.retrieval.__main__ import sizes
from benchmarks.retrieval.plan import RetrievalOptions


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", type=sizes, default=(200, 2_000), help="default: 200,2000")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--only", action="append", choices=[peer.name for peer in PEERS])


async def _measure(given: argparse.Namespace, progress: Progress) -> BenchmarkResult:
    options = RetrievalOptions(
        sizes=given.sizes, callers=(ONE, MANY), seconds=given.seconds, extras=False
    )
    peers = [peer for peer in PEERS if not given.only or peer.name in given.only]
    return await measure(options, peers, progress)


BENCHMARK = Benchmark(
    name="peers",
    description="Measure the same searches in other memory stores.",
    arguments=_arguments,
    measure=_measure,
)

if __name__ == "__main__":
    main(BENCHMARK)
