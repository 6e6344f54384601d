"""Compares with other memory stores from the command line; see the package for how."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console

from benchmarks.command import Benchmark, Progress, main
from benchmarks.comparison import by_name
from benchmarks.peers.measuring import PeerMeasurements, measure
from benchmarks.peers.running import MANY, ONE, PEERS, compare
from benchmarks.report import JudgedBar, bars_table, table
from benchmarks.retrieval.__main__ import sizes
from benchmarks.retrieval.plan import RetrievalOptions


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", type=sizes, default=(200, 2_000), help="default: 200,2000")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--only", action="append", choices=[peer.name for peer in PEERS])


async def _measure(given: argparse.Namespace, progress: Progress) -> PeerMeasurements:
    options = RetrievalOptions(
        sizes=given.sizes, callers=(ONE, MANY), seconds=given.seconds, extras=False
    )
    peers = [peer for peer in PEERS if not given.only or peer.name in given.only]
    return await measure(options, peers, progress)


def _show(found: PeerMeasurements, console: Console) -> None:
    rows = [
        (
            f"{each.name} {found.versions.get(each.name, '')}".strip(),
            f"{each.size:,}",
            str(each.callers),
            f"{each.p50:.2f}",
            f"{each.p95:.2f}",
            f"{each.per_second:,.0f}",
            f"{each.results:g}",
        )
        for each in [*found.ours, *found.peers]
    ]
    columns = ("store", "memories a user", "callers", "p50 ms", "p95", "requests/s", "results")
    console.print(table("the same searches on the same data", columns, rows))
    bars = [
        JudgedBar(
            one.ours,
            f"{one.figure}, {one.size:,} memories a user, by {one.peer}",
            f"{one.times:.1f} times as fast",
            f"≥ {one.bar:g}",
            one.met,
        )
        for one in compare(found.ours, found.peers)
    ]
    console.print(bars_table("bars: by the fastest peer", bars))
    for name, reason in found.unavailable.items():
        console.print(f"{name}: {reason}")
    console.print(f"load average before and after: {found.load_average}")


def _figures(found: PeerMeasurements) -> dict[str, Any]:
    comparisons = compare(found.ours, found.peers)
    return asdict(found) | {"comparisons": [asdict(each) for each in comparisons]}


def _by_name(figures: Mapping[str, Any]) -> dict[str, float]:
    return {
        f"{each['name']}, {each['size']:,} memories a user, {each['callers']} callers: {of}": each[
            of
        ]
        for each in [*figures["ours"], *figures["peers"]]
        for of in ("p50", "p95", "per_second")
    }


BENCHMARK = Benchmark(
    name="peers",
    description="Measure the same searches in other memory stores.",
    arguments=_arguments,
    measure=_measure,
    show=_show,
    figures=_figures,
    compare=by_name(_by_name),
)

if __name__ == "__main__":
    main(BENCHMARK)
