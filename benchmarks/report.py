"""The one form of a result: figures, scores of rows, tables, bars, notes, and what the machine was.

Every benchmark returns a `BenchmarkResult`. It is printed, written as JSON, read again, compared
and turned into the tables of `benchmarks/README.md` here and in `comparison`, and nowhere else.

A run's times are held to bars only if the machine had nothing else to do: `timed` takes the load
average from before the run and leaves bars out on a busy machine.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table

from hitherto_shared.database.embedded.binaries import MAJOR

FORMAT = 2
LOAD_BEFORE = "load average before"
CORES = "cores"
QUIET = 0.5
"""The highest load average for each core before a run whose times are held to bars."""

Machine = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True)
class JudgedBar:
    """One bar: its name, what was measured, both as they are printed, and whether it was met.

    `met` is None where the run did not measure what it takes.
    """

    name: str
    figure: str
    measured: str
    bar: str
    met: bool | None

    @classmethod
    def limit(
        cls, name: str, figure: str, value: float | None, most: float, unit: str, digits: int = 2
    ) -> JudgedBar:
        """A bar that a value must not exceed; None: it was not measured."""
        measured = "-" if value is None else f"{value:.{digits}f} {unit}"
        met = None if value is None else value <= most
        return cls(name, figure, measured, f"≤ {most:g} {unit}", met)


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table of text under a title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str] | None]  # cells of each row; None draws a line
    left: int = 1  # how many columns are aligned to the left; the others are to the right

    def printed(self) -> Table:
        """The table for a terminal."""
        shown = Table(title=self.title, title_justify="left", show_header=any(self.columns))
        for number, name in enumerate(self.columns):
            shown.add_column(name, justify="left" if number < self.left else "right")
        for row in self.rows:
            if row is None:
                shown.add_section()
            else:
                shown.add_row(*row)
        return shown

    def markdown(self) -> Iterator[str]:
        """The lines of the table in Markdown."""
        yield f"| {' | '.join(self.columns)} |"
        yield f"|{'---|' * len(self.columns)}"
        for row in self.rows:
            if row is not None:
                yield f"| {' | '.join(row)} |"


@dataclass(frozen=True, slots=True)
class RowScore:
    """A score to which every row adds, so that two results can be compared row by row."""

    above: Sequence[float]  # what each row adds above the line of the ratio that the score is
    below: Sequence[float] = ()  # what each adds below it; empty: 1, and the score is a mean
    lower_is_better: bool = False
    scale: float = 1.0  # the factor by which it is printed
    digits: int = 3  # decimal places
    unit: str = ""  # stands after it
    names_rows: bool = False  # whether a comparison names the rows that lost or won

    def shown(self, value: float, *, sign: bool = False) -> str:
        """A value of this score; with its sign for a difference."""
        if math.isnan(value):
            return "-"
        return f"{value * self.scale:{'+' if sign else ''}.{self.digits}f}{self.unit}"


@dataclass(frozen=True, slots=True)
class ResultPart:
    """What was measured under one title; parts of two results with the same title are compared."""

    title: str
    figures: Mapping[str, float]
    tables: Sequence[FigureTable] = ()
    bars: Sequence[JudgedBar] = ()
    notes: Sequence[str] = ()  # sentences below the tables
    rows: Sequence[str] = ()  # the names of the rows that `scores` are made of
    # By name; empty: the figures are compared, without an interval.
    scores: Mapping[str, RowScore] = field(default_factory=dict)
    row_word: str = "rows"  # what a row is called, in the plural


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """Everything that one run found."""

    benchmark: str
    parts: Sequence[ResultPart]  # several where it was measured with several models
    details: Any = None  # what else `--json` writes, for a reader who looks for causes
    format: int = FORMAT  # the version of this form


_FILE: TypeAdapter[BenchmarkResult] = TypeAdapter(BenchmarkResult)


def write_result(path: Path, result: BenchmarkResult) -> None:
    """Write a result as JSON."""
    path.write_bytes(_FILE.dump_json(result, indent=1) + b"\n")


def read_result(path: Path, benchmark: str) -> BenchmarkResult:
    """What `write_result` wrote for this benchmark.

    Raises:
        ValueError: The file cannot be read or is something else; the text says what to do.
    """
    try:
        found = _FILE.validate_json(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}") from None
    except ValidationError:
        found = None
    if found is None or (found.benchmark, found.format) != (benchmark, FORMAT):
        raise ValueError(
            f"{path.name} is no result of this version of {benchmark}: write it anew with --json"
        )
    return found


def show_result(result: BenchmarkResult, console: Console) -> None:
    """Print all tables, bars and notes."""
    for part in result.parts:
        for each in part.tables:
            console.print(each.printed())
        if part.bars:
            console.print(_bars_table(part, {True: "met", False: "MISSED", None: "-"}).printed())
        for note in part.notes:
            console.print(note, markup=False, highlight=False)


def markdown(result: BenchmarkResult) -> str:
    """All tables in Markdown, the bars first, as `benchmarks/README.md` has them."""
    lines: list[str] = []
    for part in result.parts:
        bars = [_bars_table(part, {True: "met", False: "**missed**", None: "-"})]
        for each in (*(bars if part.bars else ()), *part.tables):
            lines += [*each.markdown(), ""]
    return "\n".join(lines)


def _bars_table(part: ResultPart, verdicts: Mapping[bool | None, str]) -> FigureTable:
    rows = [(bar.name, bar.figure, bar.measured, bar.bar, verdicts[bar.met]) for bar in part.bars]
    return FigureTable(f"Bars: {part.title}", ("", "figure", "measured", "bar", ""), rows, left=2)


def load_average() -> float:
    """How much the machine has had to do during the last minute."""
    return round(os.getloadavg()[0], 2)


def machine(load_before: float) -> Machine:
    """What times depend on: the processor, the versions, and how busy the machine was."""
    return {
        "processor": f"{platform.machine()}, {os.cpu_count()} cores",
        CORES: os.cpu_count() or 1,
        "python": platform.python_version(),
        "postgres": str(MAJOR),
        LOAD_BEFORE: load_before,
        "load average after": load_average(),
    }


def timed(part: ResultPart, machine: Machine) -> ResultPart:
    """A part with times: the machine is noted, and decides whether there are bars.

    Args:
        part: As if the machine had nothing else to do.
        machine: What the figures depend on, `LOAD_BEFORE` and `CORES` among it.
    """
    notes = [*part.notes, *(f"{name}: {value}" for name, value in machine.items())]
    load, cores = float(machine.get(LOAD_BEFORE, 0.0)), float(machine.get(CORES, 1))
    if load <= QUIET * cores:
        return replace(part, notes=notes)
    busy = (
        f"no bars: the load average before the run was {load:g} on {cores:g} cores, above "
        f"{QUIET:g} for each of them; measure again when nothing else runs"
    )
    return replace(part, bars=[], notes=[busy, *notes])


def percentile(times: Sequence[float], share: float) -> float:
    """The time that `share` of them do not exceed, by the nearest rank.

    Raises:
        ValueError: There are no times.
    """
    if not times:
        raise ValueError("a percentile needs at least one time")
    return sorted(times)[max(0, math.ceil(share * len(times)) - 1)]


def sections(groups: Iterable[Iterable[Sequence[str]]]) -> list[Sequence[str] | None]:
    """The rows of some groups, with a line between two of them."""
    rows: list[Sequence[str] | None] = []
    for group in groups:
        if rows:
            rows.append(None)
        rows += group
    return rows
