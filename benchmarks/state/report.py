"""The tables and bars of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from benchmarks.report import FigureTable, JudgedBar, ResultPart
from benchmarks.state.adjudication import adjudicated
from benchmarks.state.scores import Score

_COLUMNS = (
    ("changes applied", "changes applied"),
    ("current known", "current known"),
    ("current right", "current right"),
    ("ended gone", "ended gone"),
    ("never learnt", "never learnt"),
    ("profile right", "profile right"),
    ("doubt right", "doubt precision"),
    ("doubt in gold", "doubts in the gold"),
    ("doubt found", "doubt recall"),
    ("answered", "answered"),
    ("best first", "within 300 tokens"),
    ("stale not above", "stale not above"),
    ("forgotten hidden", "forgotten hidden"),
    ("absence said", "absence said"),
    ("not denied", "answers not denied"),
)
_BARS = (
    ("current known", "current facts, recall", 0.95),
    ("current right", "current facts, precision", 0.95),
    ("stale not above", "no stale line above the right one", 0.97),
    ("doubt right", "doubt, precision, as read blind", 0.8),
    ("doubt found", "doubt, recall", 0.5),
    ("forgotten hidden", "what was forgotten is not shown", 1.0),
    ("absence said", "absence is said", 0.9),
)
_EVERY_LANGUAGE = 0.95


def state_part(
    by_person: Mapping[str, Score],
    languages: Mapping[str, str],
    notes: Sequence[str],
    verdicts: Mapping[tuple[str, str], bool],
) -> ResultPart:
    """What the people's scores come to, by language and over all; bars are judged strictly."""
    total, groups = Score(), defaultdict[str, Score](Score)
    for person, score in by_person.items():
        groups[languages[person]].add(score)
        total.add(score)
    rows = [_row("all", total), None, *(_row(name, groups[name]) for name in sorted(groups))]
    lowest = min((groups[name].share("changes applied") or 0.0) for name in groups)
    bars = [
        JudgedBar(
            "T2",
            "right changes applied, in the language with the fewest",
            f"{lowest:.3f}",
            f"≥ {_EVERY_LANGUAGE}",
            lowest >= _EVERY_LANGUAGE,
        )
    ]
    for name, told, least in _BARS:
        share = total.share(name)
        met = None if share is None else share >= least
        bars.append(
            JudgedBar("T2", told, "-" if share is None else f"{share:.3f}", f"≥ {least}", met)
        )
    return ResultPart(
        title="What is believed after the last session",
        figures={name: share for name, _ in _COLUMNS if (share := total.share(name)) is not None},
        tables=[
            FigureTable(
                "What is believed after the last session, by language",
                ["language", *(told for _, told in _COLUMNS)],
                rows,
            ),
            adjudicated(by_person, verdicts),
        ],
        bars=bars,
        notes=notes,
    )


def _row(name: str, score: Score) -> list[str]:
    shares = (score.share(key) for key, _ in _COLUMNS)
    return [name, *("-" if share is None else f"{share:.3f}" for share in shares)]
