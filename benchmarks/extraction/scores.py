"""What a row scores, and what many rows score together.

Every score is a ratio of two counts, and rows are put together by adding the counts: a row that
learnt ten memories weighs ten times as much in precision as one that learnt one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.extraction.matching import Nearness, meets, repeated, violated
from benchmarks.extraction.rows import CURRENT, MemoryOutcome, Observation
from benchmarks.extraction.support import unsupported
from benchmarks.extraction.wording import contains_all, language_of

SCORES: Mapping[str, tuple[str, str]] = {
    "precision": (
        "precision",
        "new memories that were expected and not forbidden, of all new ones",
    ),
    "recall": ("recall", "required expectations that a memory met, of all required ones"),
    "hallucination": ("made up", "new memories with a number, a name or most words from nowhere"),
    "duplicates": ("doubled", "new memories that say what another active one says"),
    "types": ("type", "memories of a type that is right for an expectation they met"),
    "importance": ("floor", "met expectations whose importance floor was kept"),
    "fates": ("fates", "memories from before that became what they had to, of all of them"),
    "traps": ("traps", "forbidden statements that were learnt, of all forbidden ones"),
    "language": ("language", "new memories in the language of the conversation"),
    "silence": ("silence", "rows that taught nothing where nothing was to be learnt"),
    "failed": ("", "rows whose job did not succeed, of all rows"),
    "input_tokens": ("", "prompt tokens a row"),
    "output_tokens": ("", "answer tokens a row"),
    "usd": ("", "dollars a row at the prices of the model that was asked"),
    "usd_reference": ("", "dollars a row at the reference model's prices"),
}
"""Each score's column in the table of shares, if it has one, and what it is."""
LOWER_IS_BETTER = frozenset(
    "hallucination duplicates traps failed input_tokens output_tokens usd usd_reference".split()
)
_FLOOR_SLACK = 1e-6

Counts = Mapping[str, tuple[float, float]]
"""Numerator and denominator by score."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row's counts, and the texts behind them."""

    counts: Counts
    unexpected: Sequence[str] = ()
    missed: Sequence[str] = ()
    made_up: Mapping[str, Sequence[str]] = field(default_factory=dict)
    repeats: Mapping[str, str] = field(default_factory=dict)
    wrong_types: Sequence[str] = ()
    wrong_fates: Sequence[str] = ()
    forbidden: Sequence[str] = ()


def judge_row(seen: Observation, nearness: Nearness | None = None) -> Verdict:
    """Score one row; without the embedder's view of its texts, words alone decide."""
    near = nearness or Nearness()
    row, learnt = seen.row, seen.learnt
    # A known memory that was reworded may be where an expectation was met.
    statements = [*learnt, *(fate.after for fate in seen.fates if _reworded(fate))]
    met_by = [
        {place for place, memory in enumerate(statements) if meets(memory.content, wanted, near)}
        for wanted in row.expected
    ]
    met = frozenset().union(*met_by)
    broken = [violated(memory.content, row.forbidden) for memory in statements]
    in_profile = [violated(value, row.forbidden) for value in seen.profile]
    rules = {number for found in (*broken, *in_profile) for number in found}
    right = [place for place in range(len(learnt)) if place in met and not broken[place]]
    made_up = {
        place: findings
        for place, memory in enumerate(learnt)
        if (findings := unsupported(memory.content, row, near))
    }
    repeats = repeated(learnt, seen.fates, met, near)
    required = [number for number, wanted in enumerate(row.expected) if not wanted.optional]
    missed = [number for number in required if not met_by[number]]
    wanted_of = list(zip(row.expected, met_by, strict=True))
    wrong_types = [
        statements[place]
        for place in sorted(met)
        if not any(place in by and statements[place].type in of.types for of, by in wanted_of)
    ]
    floors_kept = [
        max(statements[place].importance for place in by) >= of.importance_min - _FLOOR_SLACK
        for of, by in wanted_of
        if of.importance_min is not None and by
    ]
    wrong_fates = [fate for fate in seen.fates if not as_wanted(fate)]
    tongues = [tongue for memory in learnt if (tongue := language_of(memory.content)) is not None]
    counts: dict[str, tuple[float, float]] = {
        "precision": (len(right), len(learnt)),
        "recall": (len(required) - len(missed), len(required)),
        "hallucination": (len(made_up), len(learnt)),
        "duplicates": (len(repeats), len(learnt)),
        "types": (len(met) - len(wrong_types), len(met)),
        "importance": (sum(floors_kept), len(floors_kept)),
        "fates": (len(seen.fates) - len(wrong_fates), len(seen.fates)),
        "traps": (len(rules), len(row.forbidden)),
        "language": (sum(tongue == row.language for tongue in tongues), len(tongues)),
        "silence": (int(not learnt and not seen.error), 1) if row.silent else (0, 0),
        "failed": (int(bool(seen.error)), 1),
        "input_tokens": (seen.spent.input_tokens, 1),
        "output_tokens": (seen.spent.output_tokens, 1),
        "usd": (seen.spent.usd, 1),
        "usd_reference": (seen.spent.usd_reference, 1),
    }
    return Verdict(
        counts=counts,
        unexpected=[memory.content for place, memory in enumerate(learnt) if place not in right],
        missed=[row.expected[n].says or str(row.expected[n].contains) for n in missed],
        made_up={learnt[place].content: findings for place, findings in made_up.items()},
        repeats={learnt[place].content: other for place, other in repeats.items()},
        wrong_types=[f"{memory.type}: {memory.content}" for memory in wrong_types],
        wrong_fates=[
            f"{fate.wanted.then}, but {fate.after.status} in version {fate.after.version}: "
            f"{fate.after.content}"
            for fate in wrong_fates
        ],
        forbidden=[f"{row.forbidden[n].because}: {row.forbidden[n].contains}" for n in rules],
    )


def as_wanted(fate: MemoryOutcome) -> bool:
    """Whether a memory from before became what it had to."""
    before, after, wanted = fate.before, fate.after, fate.wanted
    if wanted.then in ("contradicted", "achieved"):
        return after.status == wanted.then
    if wanted.then == "untouched":
        return all(
            getattr(after, name) == getattr(before, name)
            for name in ("status", "version", "content")
        )
    changed = after.version > before.version
    holds = after.status == "active" and contains_all(after.content, wanted.contains)
    return holds and (changed or wanted.then == "kept")


def add(counts: Iterable[Counts]) -> Counts:
    """The counts of many rows together."""
    total = dict.fromkeys(SCORES, (0.0, 0.0))
    for one in counts:
        for name, (part, whole) in one.items():
            total[name] = (total[name][0] + part, total[name][1] + whole)
    return total


def ratio(counts: Counts, name: str) -> float | None:
    """One score, or None where there was nothing to score."""
    part, whole = counts[name]
    return part / whole if whole else None


def _reworded(fate: MemoryOutcome) -> bool:
    return fate.after.status in CURRENT and fate.after.content != fate.before.content
