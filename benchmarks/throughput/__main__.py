"""Runs the benchmark from the command line; see the package for what it measures."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.processes import BenchmarkProcessFailed
from benchmarks.profiler import NoProfiler
from benchmarks.throughput.driver import Stalled
from benchmarks.throughput.measure import ThroughputOptions, measure
from benchmarks.throughput.table import print_tables
from hitherto_shared.database.embedded import EmbeddedPostgresError


def main() -> int:
    """Measure, print the tables and, if asked, write the figures; 0 if there are figures."""
    arguments = _arguments()
    console = Console()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("starting", total=1)
    try:
        with bar:
            report = asyncio.run(
                measure(
                    _options(arguments),
                    lambda phase, done, total: bar.update(
                        task, description=phase, completed=done, total=total
                    ),
                )
            )
    except (BenchmarkProcessFailed, Stalled, NoProfiler, EmbeddedPostgresError) as error:
        print(f"benchmarks.throughput: {error}", file=sys.stderr)
        return 1
    print_tables(report, console)
    if arguments.json:
        figures = asdict(report) | {"times_the_floor": round(report.times_the_floor, 2)}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description=__doc__)
    given = ThroughputOptions()
    parser.add_argument(
        "--transcripts",
        type=_count,
        default=given.transcripts,
        help="measured under load (20000: the long form, for memory)",
    )
    parser.add_argument("--users", type=_count, help="default: a quarter of the transcripts")
    parser.add_argument(
        "--services",
        type=_count,
        default=given.services,
        help="processes of the extraction service",
    )
    parser.add_argument(
        "--in-flight", type=_count, default=given.in_flight, help="transcripts unfinished at a time"
    )
    parser.add_argument("--warm-up", type=_count, default=given.warm_up)
    parser.add_argument(
        "--idle", type=_count, default=given.idle, help="transcripts sent to the idle service"
    )
    parser.add_argument("--floor", type=_count, default=given.floor, help="calls of the floor")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="write collapsed stacks of the service under load (needs py-spy)",
    )
    return parser.parse_args()


def _options(arguments: argparse.Namespace) -> ThroughputOptions:
    return ThroughputOptions(
        transcripts=arguments.transcripts,
        users=arguments.users,
        services=arguments.services,
        in_flight=arguments.in_flight,
        warm_up=arguments.warm_up,
        idle=arguments.idle,
        floor=arguments.floor,
        profile=arguments.profile,
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
