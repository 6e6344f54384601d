"""One report for all benchmarks: tables, bars, percentiles, and what the machine was.

A run's times are held to bars only if the machine had nothing else to do. Every benchmark notes the
load average from before its run beside the number of cores, and asks `noise` before it says that a
bar was met or missed.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

LOAD_BEFORE = "load average before"
CORES = "cores"
QUIET = 0.5
"""The highest load average for each core before a run whose times are held to bars."""

Machine = Mapping[str, str | int | float]


def load_average() -> float:
    """How much the machine has had to do during the last minute."""
    return round(os.getloadavg()[0], 2)


def machine(load_before: float, postgres_version: int) -> dict[str, str | int | float]:
    """What figures depend on: the processor, the versions, and how busy the machine was."""
    return {
        "processor": f"{platform.machine()}, {os.cpu_count()} cores",
        CORES: os.cpu_count() or 1,
        "python": platform.python_version(),
        "postgres": str(postgres_version // 10_000),
        LOAD_BEFORE: load_before,
        "load average after": load_average(),
    }


def noise(machine: Machine) -> str:
    """Why a run is held to no bars; empty for a machine that had nothing else to do.

    Args:
        machine: What the figures depend on, `LOAD_BEFORE` and `CORES` among it.
    """
    load, cores = float(machine.get(LOAD_BEFORE, 0.0)), float(machine.get(CORES, 1))
    if load <= QUIET * cores:
        return ""
    return (
        f"no bars: the load average before the run was {load:g} on {cores:g} cores, above "
        f"{QUIET:g} for each of them; measure again when nothing else runs"
    )


def percentile(times: Sequence[float], share: float) -> float:
    """The time that `share` of them do not exceed, by the nearest rank.

    Raises:
        ValueError: There are no times.
    """
    if not times:
        raise ValueError("a percentile needs at least one time")
    return sorted(times)[max(0, math.ceil(share * len(times)) - 1)]


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


def table(
    title: str,
    columns: Iterable[str],
    rows: Iterable[Sequence[str] | None],
    *,
    left: int = 1,
    head: bool = True,
) -> Table:
    """A table for a terminal.

    Args:
        title: Stands above it.
        columns: Their names.
        rows: Cells of each row; None draws a line.
        left: How many columns are aligned to the left; the others are to the right.
        head: Whether the names are shown.
    """
    found = Table(title=title, title_justify="left", show_header=head)
    for number, name in enumerate(columns):
        found.add_column(name, justify="left" if number < left else "right")
    for row in rows:
        if row is None:
            found.add_section()
        else:
            found.add_row(*row)
    return found


def bars_table(title: str, bars: Iterable[JudgedBar], *, held: bool = True) -> Table:
    """Bars, and whether they were met; on a busy machine (`held` is false) none is."""
    said = {True: "met", False: "MISSED", None: "-"}
    rows = [
        (bar.name, bar.figure, bar.measured, bar.bar, said[bar.met if held else None])
        for bar in bars
    ]
    return table(title, ("", "figure", "measured", "bar", ""), rows, left=2)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table in Markdown."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
