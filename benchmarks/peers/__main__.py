"""Compares with other memory stores from the command line; see the package for how."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.peers.comparing import MANY, ONE, PeerComparison, compare
from benchmarks.peers.known import PEERS
from benchmarks.peers.measuring import PeerMeasurements, measure
from benchmarks.processes import BenchmarkProcessFailed
from benchmarks.retrieval.plan import COUNTS, RetrievalOptions
from benchmarks.retrieval.stage import CallFailed
from hitherto_shared.database.embedded import EmbeddedPostgresError


def main() -> int:
    """Measure and print the tables; 0 if there are figures of ours."""
    arguments = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 140)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    shown = bar.add_task("starting", total=1)
    options = RetrievalOptions(
        sizes=arguments.sizes, callers=(ONE, MANY), seconds=arguments.seconds, extras=False
    )
    peers = [peer for peer in PEERS if not arguments.only or peer.name in arguments.only]
    try:
        with bar:
            found = asyncio.run(
                measure(
                    options,
                    peers,
                    lambda phase, done, total: bar.update(
                        shown, description=phase, completed=done, total=total
                    ),
                )
            )
    except (BenchmarkProcessFailed, CallFailed, EmbeddedPostgresError) as error:
        print(f"benchmarks.peers: {error}", file=sys.stderr)
        return 1
    comparisons = compare(found.ours, found.peers)
    _print(found, comparisons, console)
    if arguments.json:
        figures = asdict(found) | {"comparisons": [asdict(each) for each in comparisons]}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 0


def _print(
    found: PeerMeasurements, comparisons: Sequence[PeerComparison], console: Console
) -> None:
    table = Table(title="the same searches on the same data", title_justify="left")
    table.add_column("store")
    for name in ("memories a user", "callers", "p50 ms", "p95", "requests/s", "results"):
        table.add_column(name, justify="right")
    for each in [*found.ours, *found.peers]:
        table.add_row(
            f"{each.name} {found.versions.get(each.name, '')}".strip(),
            f"{each.size:,}",
            str(each.callers),
            f"{each.p50:.2f}",
            f"{each.p95:.2f}",
            f"{each.per_second:,.0f}",
            f"{each.results:g}",
        )
    console.print(table)
    bars = Table(title="bars: by the fastest peer", title_justify="left")
    for name in ("ours", "memories a user", "figure", "peer", "times as fast", "bar", ""):
        bars.add_column(name)
    for one in comparisons:
        said = "met" if one.met else "MISSED"
        cells = (one.ours, f"{one.size:,}", one.figure, one.peer, f"{one.times:.1f}")
        bars.add_row(*cells, f"≥ {one.bar:g}", said)
    console.print(bars)
    for name, reason in found.unavailable.items():
        console.print(f"{name}: {reason}")
    console.print(f"load average before and after: {found.load_average}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--sizes", type=_sizes, default=(200, 2_000), help="default: 200,2000")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--only", action="append", choices=[peer.name for peer in PEERS])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part) for part in text.split(","))
    if not set(sizes) <= set(COUNTS):
        raise argparse.ArgumentTypeError(f"must be of {','.join(map(str, COUNTS))}")
    return sizes


if __name__ == "__main__":
    sys.exit(main())
