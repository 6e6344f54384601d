"""The one way to run a benchmark from the command line: arguments, progress, results, exit codes.

Exit code 0 if the run came to its end, whatever its figures, or was skipped for want of data; 1 if
it could not; 2 for arguments, settings or data that cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import grpc
from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from benchmarks import BenchmarkFailed, report
from benchmarks.comparison import show_differences
from hitherto_client.errors import HithertoCallError
from hitherto_shared.config import describe
from hitherto_shared.database.embedded import EmbeddedPostgresError

Progress = Callable[[str, int, int], None]
"""Takes the phase, how much of it is done, and how much there is."""
_HEARS: ContextVar[Progress] = ContextVar("_HEARS", default=lambda *_: None)


class Skipped(Exception):
    """There is nothing to measure here; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark as a command: its module's name, the head of its help, its own arguments."""

    name: str
    description: str
    arguments: Callable[[argparse.ArgumentParser], None]
    measure: Callable[[argparse.Namespace], Coroutine[Any, Any, report.BenchmarkResult]]
    timed: bool = False  # whether bars hold only on a machine that had nothing else to do


def main(benchmark: Benchmark) -> NoReturn:
    """The process of a benchmark."""
    # What the services warn of stands in the report or is meant: no keys, a scripted model.
    logging.getLogger("hitherto").setLevel(logging.ERROR)
    # As Ctrl-C does: whatever was started is ended too, the database above all.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(run(benchmark))
    except KeyboardInterrupt:
        sys.exit(_failed(benchmark.name, "ended before its time", 1))


def run(benchmark: Benchmark, arguments: Sequence[str] | None = None) -> int:
    """Measure, compare two results, or print the tables of one; returns the exit code."""
    given = _parser(benchmark).parse_args(arguments)
    # Wide enough for every table where nobody says how wide it is.
    output = Console() if sys.stdout.isatty() else Console(width=160)
    try:
        if given.command == "compare":
            one, two = (report.read_result(path, benchmark.name) for path in (given.a, given.b))
            show_differences(one, two, output)
            return 0
        if given.command == "tables":
            print(report.markdown(report.read_result(given.a, benchmark.name)))
            return 0
        load_before = report.load_average()
        with _shown():
            result = asyncio.run(benchmark.measure(given))
        if benchmark.timed:
            parts = [report.timed(part, report.machine(load_before)) for part in result.parts]
            result = replace(result, parts=parts)
        report.show_result(result, output)
        if given.json:
            report.write_result(given.json, result)
    except Skipped as reason:
        print(f"{benchmark.name}: skipped: {reason}")
    except ValueError as error:
        text = describe(error) if isinstance(error, ValidationError) else str(error)
        return _failed(benchmark.name, text, 2)
    except (BenchmarkFailed, EmbeddedPostgresError, OSError) as error:
        return _failed(benchmark.name, str(error), 1)
    except HithertoCallError as error:
        return _failed(benchmark.name, f"a call failed: {error}", 1)
    except grpc.aio.AioRpcError as error:
        return _failed(benchmark.name, f"a call failed: {error.code().name}: {error.details()}", 1)
    return 0


def progress(phase: str, done: int, total: int) -> None:
    """Tell whoever listens how far the run is."""
    _HEARS.get()(phase, done, total)


@contextmanager
def heard_by(listener: Progress) -> Iterator[None]:
    """Let a function be told how far the run is."""
    before = _HEARS.set(listener)
    try:
        yield
    finally:
        _HEARS.reset(before)


def counting(phase: str, total: int) -> Callable[[], None]:
    """A callback that reports one more of a phase each time it is called."""
    done = 0
    progress(phase, 0, total)

    def advance() -> None:
        nonlocal done
        done += 1
        progress(phase, done, total)

    return advance


def positive(text: str) -> int:
    """An argument that is a number of things.

    Raises:
        argparse.ArgumentTypeError: It is less than 1.
        ValueError: It is no number.
    """
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def numbers(text: str) -> tuple[int, ...]:
    """An argument that is a list of numbers of things, as `1,8,32`; raises as `positive` does."""
    return tuple(positive(part) for part in text.split(","))


def add_counts(parser: argparse.ArgumentParser, **counts: tuple[int | None, str]) -> None:
    """Add arguments that are numbers of things: of each its default, if it has one, and meaning."""
    for name, (default, meaning) in counts.items():
        shown = "" if default is None else " (default: %(default)s)"
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=positive, default=default, help=f"{meaning}{shown}")


def _parser(benchmark: Benchmark) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{benchmark.name}", description=benchmark.description
    )
    parser.set_defaults(command="run")
    benchmark.arguments(parser)
    meaning = "write every figure there too"
    parser.add_argument("--json", type=Path, metavar="FILE", help=meaning)
    commands = parser.add_subparsers(metavar="")
    for name, meaning, files in (
        ("compare", "show how two JSON results differ", ("a", "b")),
        ("tables", "print the tables of a JSON result as Markdown", ("a",)),
    ):
        command = commands.add_parser(name, help=meaning)
        command.set_defaults(command=name)
        for file in files:
            command.add_argument(file, type=Path, metavar=f"{file.upper()}.json")
    return parser


def _failed(name: str, text: str, code: int) -> int:
    Console(stderr=True).print(f"{name}: {text}", markup=False, style="red")
    return code


@contextmanager
def _shown() -> Iterator[None]:
    """A bar on standard error for the phase that is under way; it goes in the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Bars(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting", total=1)

        def show(phase: str, done: int, total: int) -> None:
            bars.update(task, description=phase, completed=done, total=total)

        with heard_by(show):
            yield
