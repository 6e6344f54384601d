"""What somebody has read: is what was produced true by the conversation, whatever the gold says?

The gold was written before any reply, as patterns, and a pattern also matches true sentences. The
reader of `adjudication/VERSION.json` saw what was produced, so that figure stands beside the strict
one and never in its place. A miss that nobody has read stays a miss.

The gold names one to three doubts of a person, not all that there are. The reader of
`adjudication/doubts.json` judged stored statements, some of them in doubt and most of them not,
without being told which.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from benchmarks.report import FigureTable
from benchmarks.state.scores import Score

FOLDER = Path(__file__).parent / "adjudication"


def load(version: str, folder: Path = FOLDER) -> dict[tuple[str, str], bool]:
    """Whether what was missed holds, by person and miss as `Score.missed` words it."""
    path = folder / f"{version}.json"
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    return {(row["person"], row["miss"]): row["holds"] for row in rows}


def doubts(folder: Path = FOLDER) -> dict[tuple[str, str], bool]:
    """Whether a statement may hold no longer, by person and statement."""
    rows = json.loads((folder / "doubts.json").read_text("utf-8"))
    return {(row["person"], row["statement"]): row["verdict"] != "certain" for row in rows}


def adjudicated(
    by_person: Mapping[str, Score], verdicts: Mapping[tuple[str, str], bool]
) -> FigureTable:
    """The strict figure of each score that was read, and the one after reading its misses."""
    total, read, holds = Score(), Counter[str](), Counter[str]()
    for person, score in by_person.items():
        total.add(score)
        for miss in score.missed:
            verdict = verdicts.get((person, miss))
            name, _, _ = miss.partition(":")
            read[name] += verdict is not None
            holds[name] += bool(verdict)
    rows = []
    for name, of in sorted(read.items()):
        if of:
            missed = total.of[name] - total.hits[name]
            after = (total.hits[name] + holds[name]) / total.of[name]
            counts = [str(missed), str(of), str(holds[name])]
            rows.append([name, f"{total.share(name):.3f}", *counts, f"{after:.3f}"])
    return FigureTable(
        "The same after reading the misses; the reader saw what was produced",
        ["score", "strict", "misses", "of these read", "true all the same", "adjudicated"],
        rows,
    )
