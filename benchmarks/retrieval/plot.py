"""A plot of a run: how long the median call takes by how many memories the user has, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.retrieval.figures import NO_SIZE, SUBJECTS, RetrievalReport

WIDTH, HEIGHT = 800, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 280, 48, 48
_COLOURS = ("#666666", "#0b6fb8", "#2a9d6e", "#c2571a", "#7b4fa3", "#a3324f")
_DRAWN = ("floor_search", "search", "search_vector", "context", "context_query")
_TICKS = (1.0, 2.0, 5.0)

Line = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis from one value to another, drawn from one place to another."""

    low: float
    high: float
    start: float
    end: float

    def place(self, value: float) -> float:
        """Where a value is drawn."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values on the axis."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        return [
            factor * 10.0**power
            for power in range(first, last + 1)
            for factor in _TICKS
            if self.low * 0.999 <= factor * 10.0**power <= self.high * 1.001
        ]


def lines_of(report: RetrievalReport) -> dict[str, Line]:
    """By subject: memories of a user, and milliseconds of the median call of a single caller."""
    small = min(row.place.store for row in report.rows)
    found: dict[str, Line] = {}
    for subject in _DRAWN:
        line = sorted(
            (float(row.place.size), row.p50)
            for row in report.rows
            if row.subject == subject
            and row.place.callers == 1
            and row.place.delay_ms == 0
            and row.place.store == small
            and row.place.size != NO_SIZE
        )
        if line:
            found[SUBJECTS[subject]] = line
    return found


def draw(lines: Mapping[str, Line], title: str) -> str:
    """The plot.

    Args:
        lines: Points by name; both coordinates above 0.
        title: Stands above.

    Raises:
        ValueError: There is nothing to draw.
    """
    points = [point for line in lines.values() for point in line]
    if not points:
        raise ValueError("there is no row to plot: measure with one caller and no delay")
    x = Axis(min(p[0] for p in points), max(p[0] for p in points), _LEFT, WIDTH - _RIGHT)
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    y = Axis(low / 1.3, high * 1.3, HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="14">{escape(title)}</text>',
        *_grid(x, y, sorted({p[0] for p in points})),
    ]
    for number, (name, line) in enumerate(lines.items()):
        parts += _line(name, line, x, y, number)
    return "\n".join([*parts, "</svg>", ""])


def _grid(x: Axis, y: Axis, sizes: Sequence[float]) -> list[str]:
    parts = []
    for value in y.ticks():
        at = y.place(value)
        parts += [
            f'<line x1="{x.start}" x2="{x.end}" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>',
            f'<text x="{x.start - 8}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>',
        ]
    for size in sizes:
        at = x.place(size)
        parts += [
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y.start}" y2="{y.end}" stroke="#eeeeee"/>',
            f'<text x="{at:.1f}" y="{y.start + 18}" text-anchor="middle">{size:,.0f}</text>',
        ]
    middle = (x.start + x.end) / 2
    return [
        *parts,
        f'<text x="{middle}" y="{y.start + 38}" text-anchor="middle">memories of the user</text>',
        f'<text x="{x.start - 8}" y="{y.end - 8}" text-anchor="end">ms</text>',
    ]


def _line(name: str, line: Line, x: Axis, y: Axis, number: int) -> list[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    places = [(x.place(size), y.place(ms)) for size, ms in line]
    dashed = ' stroke-dasharray="5 4"' if name.startswith("floor") else ""
    label = _TOP + 12 + 20 * number
    return [
        f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in places)}" fill="none" '
        f'stroke="{colour}" stroke-width="2"{dashed}/>',
        *(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in places),
        f'<line x1="{x.end + 16}" x2="{x.end + 36}" y1="{label - 4}" y2="{label - 4}" '
        f'stroke="{colour}" stroke-width="2"{dashed}/>',
        f'<text x="{x.end + 42}" y="{label}">{escape(name)}</text>',
    ]
