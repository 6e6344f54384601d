"""The tables of `benchmarks/README.md`, from the JSON that a run has written.

python -m benchmarks.retrieval.markdown FILE.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import noise
from benchmarks.retrieval.bars import bars
from benchmarks.retrieval.figures import (
    NO_SIZE,
    SUBJECTS,
    IsolationCost,
    LatencyFigures,
    MeasurementConditions,
    Recall,
    RetrievalReport,
    Start,
)

_KNOWN = ("rows", "limit", "start", "recall", "machine", "walls")


def read_report(figures: Mapping[str, Any]) -> RetrievalReport:
    """The report that was written as JSON."""
    given = {name: figures[name] for name in _KNOWN}
    given["rows"] = [
        LatencyFigures(**{**row, "place": MeasurementConditions(**row["place"])})
        for row in figures["rows"]
    ]
    given["recall"] = [Recall(**found) for found in figures["recall"]]
    given["start"] = Start(**figures["start"]) if figures["start"] else None
    given["walls"] = IsolationCost(**figures["walls"]) if figures["walls"] else None
    return RetrievalReport(**given)


def tables(report: RetrievalReport) -> str:
    """What has a bar, then all rows."""
    return "\n".join([*_bars(report), "", *_rows(report)])


def _bars(report: RetrievalReport) -> Iterator[str]:
    if why := noise(report.machine):
        yield why
        return
    yield from _head("bar", "figure", "measured", "bar is")
    for bar in bars(report):
        said = {True: bar.measured, False: f"**{bar.measured}** (missed)", None: "not measured"}
        yield _line(bar.name, bar.figure, said[bar.met], bar.bar)


def _rows(report: RetrievalReport) -> Iterator[str]:
    yield from _head(
        "what",
        "memories a user",
        "callers",
        "p50 / p95 / p99 ms",
        "requests/s",
        "CPU ms: service / Postgres",
        "× floor",
    )
    for row in report.rows:
        times = report.times_the_floor(row)
        yield _line(
            _what(row),
            _users(report, row.place),
            str(row.place.callers),
            f"{row.p50:.1f} / {row.p95:.1f} / {row.p99:.1f}",
            f"{row.per_second:,.0f}",
            f"{row.cpu_ms['service']:.2f} / {row.cpu_ms['postgres']:.2f}",
            "" if times is None else f"{times:.1f}",
        )


def _what(row: LatencyFigures) -> str:
    faults = [f"{count} of {row.looked_at} {what}" for what, count in row.faults.items()]
    return SUBJECTS[row.subject] + (f" ({', '.join(faults)})" if faults else "")


def _users(report: RetrievalReport, place: MeasurementConditions) -> str:
    if place.size == NO_SIZE:
        return "any"
    parts = [f"{place.size:,}"]
    if place.delay_ms:
        parts.append(f"embedding {place.delay_ms} ms")
    if place.store != min(row.place.store for row in report.rows):
        parts.append(f"of {place.store:,}, {place.spread:,} users ask")
    return ", ".join(parts)


def _head(*names: str) -> Sequence[str]:
    return [_line(*names), f"|{'---|' * len(names)}"]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(tables(read_report(json.loads(Path(sys.argv[1]).read_text("utf-8")))))
