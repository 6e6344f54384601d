"""Runs the benchmark from the command line; see the package for what it measures."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from benchmarks.command import Benchmark, main, numbers
from benchmarks.report import BenchmarkResult
from benchmarks.retrieval.measure import measure
from benchmarks.retrieval.plan import COUNTS, RetrievalOptions

_QUICK: Mapping[str, Any] = {
    "sizes": (200,),
    "seconds": 1.5,
    "extras": False,
    "start": False,
    "walls": False,
    "recall": 10,
}
_SIZES = ",".join(map(str, COUNTS))


def sizes(text: str) -> tuple[int, ...]:
    """An argument that lists sizes of users.

    Raises:
        argparse.ArgumentTypeError: One is none that there are users of.
    """
    given = numbers(text)
    if not set(given) <= set(COUNTS):
        raise argparse.ArgumentTypeError(f"must be of {_SIZES}")
    return given


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError("must be NAME=VALUE")
    return name, value


def _arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--quick", action="store_true", help="a minute: 200 memories a user, few rows")
    add("--full", action="store_true", help="the store of 1,000,000 memories as well")
    add("--sizes", type=sizes, help=f"of {_SIZES}")
    add("--callers", type=numbers, help="default: 1,8,32")
    add("--seconds", type=float, help="how long each row is measured")
    add("--limit", type=int, help="results that a search wants")
    settings = "an environment variable of the service; repeatable"
    add("--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help=settings)


async def _measure(given: argparse.Namespace) -> BenchmarkResult:
    options: dict[str, Any] = dict(_QUICK if given.quick else {})
    for name in ("full", "sizes", "callers", "seconds", "limit"):
        if (value := getattr(given, name)) is not None:
            options[name] = value
    return await measure(RetrievalOptions(**options, settings=dict(given.set)))


BENCHMARK = Benchmark(
    name="retrieval",
    description="Measure what a search costs (bars P1, P2, P3, P4, P6 and Q2).",
    arguments=_arguments,
    measure=_measure,
    timed=True,
)

if __name__ == "__main__":
    main(BENCHMARK)
