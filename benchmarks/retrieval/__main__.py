"""Runs the benchmark from the command line; see the package for what it measures."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.processes import BenchmarkProcessFailed
from benchmarks.profiler import NoProfiler
from benchmarks.retrieval.bars import bars
from benchmarks.retrieval.measure import measure
from benchmarks.retrieval.plan import COUNTS, RetrievalOptions
from benchmarks.retrieval.plot import draw, lines_of
from benchmarks.retrieval.stage import CallFailed
from benchmarks.retrieval.table import print_tables
from hitherto_shared.database.embedded import EmbeddedPostgresError

_QUICK = RetrievalOptions(
    sizes=(200,), seconds=1.5, extras=False, start=False, walls=False, recall=10
)


def main() -> int:
    """Measure, print the tables and, if asked, write figures and plot; 0 if there are figures."""
    arguments = _arguments()
    # Wide enough for every column where output goes to a file.
    console = Console(width=None if sys.stdout.isatty() else 160)
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
    except (BenchmarkProcessFailed, CallFailed, NoProfiler, EmbeddedPostgresError) as error:
        print(f"benchmarks.retrieval: {error}", file=sys.stderr)
        return 1
    print_tables(report, console)
    if arguments.json:
        figures = asdict(report) | {"bars": [asdict(bar) for bar in bars(report)]}
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    if arguments.plot:
        title = "Median call of a single caller, embedding included"
        arguments.plot.write_text(draw(lines_of(report), title), "utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.retrieval", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a minute: 200 memories a user, few rows"
    )
    parser.add_argument(
        "--full", action="store_true", help="the store of 1,000,000 memories as well"
    )
    parser.add_argument("--sizes", type=_numbers, help=f"of {','.join(map(str, COUNTS))}")
    parser.add_argument("--callers", type=_numbers, help="default: 1,8,32")
    parser.add_argument("--seconds", type=float, help="how long each row is measured")
    parser.add_argument("--limit", type=int, help="results that a search wants")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an environment variable of the service",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a plot (SVG)")
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="write collapsed stacks of the service (needs py-spy)",
    )
    given = parser.parse_args()
    if given.sizes and not set(given.sizes) <= set(COUNTS):
        parser.error(f"--sizes must be of {','.join(map(str, COUNTS))}")
    if not all("=" in setting for setting in given.set):
        parser.error("--set takes NAME=VALUE")
    return given


def _options(arguments: argparse.Namespace) -> RetrievalOptions:
    options = replace(_QUICK if arguments.quick else RetrievalOptions(), full=arguments.full)
    given = {
        name: getattr(arguments, name)
        for name in ("sizes", "callers", "seconds", "limit", "profile")
        if getattr(arguments, name) is not None
    }
    settings = dict(setting.split("=", 1) for setting in arguments.set)
    return replace(options, **given, settings=settings)


def _numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(","))
    if any(number < 1 for number in numbers):
        raise argparse.ArgumentTypeError("must be at least 1")
    return numbers


if __name__ == "__main__":
    sys.exit(main())
