"""Tables for a reader, the same figures as JSON, and two of these side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.comparison import DRAWS, Difference, as_table, counts, difference, draw, show_moved
from benchmarks.extraction.rows import CATEGORIES, LANGUAGES, ConversationCase
from benchmarks.extraction.run import BLOCK_TOKENS, EvaluationRun
from benchmarks.extraction.scores import LOWER_IS_BETTER, SCORES, Counts, Verdict, add, ratio
from benchmarks.extraction.spend import REFERENCE_MODEL
from benchmarks.report import table

FORMAT = 1
TARGET_USD_PER_THOUSAND = 5.0
"""What 1,000 conversations may cost (B14)."""

_SHARES = {
    "precision": "precision",
    "recall": "recall",
    "hallucination": "made up",
    "duplicates": "doubled",
    "types": "type",
    "importance": "floor",
    "fates": "fates",
    "traps": "traps",
    "language": "language",
    "silence": "silence",
}
_AMOUNTS = frozenset(("input_tokens", "output_tokens", "usd", "usd_reference"))
_PER_THOUSAND = frozenset(("usd", "usd_reference"))


def as_json(ran: EvaluationRun, verdicts: Sequence[Verdict], judge: str) -> dict[str, Any]:
    """Everything a run found, rows included."""
    return {
        "format": FORMAT,
        "extractor": ran.extractor,
        "model": ran.model,
        "embedder": ran.embedder,
        "prompt_version": ran.prompt_version,
        "judge": judge,
        "seconds": round(ran.seconds, 1),
        "blocks": {
            language: {"memories": block.memories, "tokens": block.tokens}
            for language, block in ran.blocks.items()
        },
        "figures": {
            name: {score: ratio(counts, score) for score in SCORES}
            for name, counts in _groups(ran, verdicts)
        },
        "rows": [
            {
                "id": seen.row.id,
                "language": seen.row.language,
                "category": seen.row.category,
                "counts": {name: list(pair) for name, pair in verdict.counts.items()},
                "learnt": [
                    {
                        "type": memory.type,
                        "content": memory.content,
                        "importance": round(memory.importance, 3),
                    }
                    for memory in seen.learnt
                ],
                "missed": list(verdict.missed),
                "unexpected": list(verdict.unexpected),
                "made_up": {text: list(found) for text, found in verdict.made_up.items()},
                "repeats": dict(verdict.repeats),
                "wrong_types": list(verdict.wrong_types),
                "wrong_fates": list(verdict.wrong_fates),
                "forbidden": list(verdict.forbidden),
                "error": seen.error,
            }
            for seen, verdict in zip(ran.observations, verdicts, strict=True)
        ],
    }


def show(ran: EvaluationRun, verdicts: Sequence[Verdict], console: Console) -> None:
    """Print the table and what stands below it."""
    groups = _groups(ran, verdicts)
    sizes = {name: len(rows) for name, rows in _parts(ran)}
    rows: list[Sequence[str] | None] = []
    section = ""
    for name, total in groups:
        kind = name.partition(":")[0]
        if section and kind != section:
            rows.append(None)
        section = kind
        shares = (share(ratio(total, score)) for score in _SHARES)
        rows.append((name.rpartition(":")[2], str(sizes[name]), *shares))
    title = f"Extraction by {ran.model or ran.extractor}, {ran.prompt_version}"
    console.print(table(title, ("", "rows", *_SHARES.values()), rows))
    for line in notes(ran, dict(groups)["overall"]):
        console.print(line, markup=False, highlight=False)


def notes(ran: EvaluationRun, overall: Counts) -> list[str]:
    """Tokens, money and block sizes, as sentences."""
    estimated = any(seen.spent.estimated for seen in ran.observations)
    read, written = ratio(overall, "input_tokens") or 0, ratio(overall, "output_tokens") or 0
    would = "would cost" if estimated else "cost"
    thousand = (ratio(overall, "usd_reference") or 0.0) * 1000
    lines = [
        f"extractor {ran.extractor}, model {ran.model}, embedder {ran.embedder}, "
        f"{ran.seconds:.0f} s",
        f"{read:.0f} tokens in and {written:.0f} out a transcript"
        + (" (estimated: no model was asked)" if estimated else ""),
        f"1,000 conversations {would} ${thousand:.2f} at {REFERENCE_MODEL}'s shipped prices "
        f"(target: at most ${TARGET_USD_PER_THOUSAND:g})",
    ]
    if not estimated:
        own = (ratio(overall, "usd") or 0.0) * 1000
        lines.append(f"1,000 conversations cost ${own:.2f} at the prices of {ran.model}")
    for language, block in ran.blocks.items():
        lines.append(
            f"prompt block in {LANGUAGES[language]}: {block.tokens} tokens for {block.memories} "
            f"memories (target: at most {BLOCK_TOKENS} for 20)"
        )
    failed = [seen for seen in ran.observations if seen.error]
    if failed:
        lines.append(f"{len(failed)} rows failed, the first: {failed[0].row.id}: {failed[0].error}")
    return lines


def share(value: float | None) -> str:
    """A share as a percentage, or a dash where there was nothing to score."""
    return "-" if value is None else f"{value * 100:.1f} %"


def _groups(ran: EvaluationRun, verdicts: Sequence[Verdict]) -> list[tuple[str, Counts]]:
    counts = {seen.row.id: v.counts for seen, v in zip(ran.observations, verdicts, strict=True)}
    return [(name, add(counts[row.id] for row in rows)) for name, rows in _parts(ran)]


def _parts(ran: EvaluationRun) -> list[tuple[str, list[ConversationCase]]]:
    """The groups of rows that are reported; those without a row are left out."""
    rows = [seen.row for seen in ran.observations]
    parts = [("overall", rows)]
    for language, name in LANGUAGES.items():
        parts.append((f"language:{name}", [row for row in rows if row.language == language]))
    for category in CATEGORIES:
        parts.append((f"category:{category}", [row for row in rows if row.category == category]))
    return [(name, group) for name, group in parts if group]


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], *, draws: int = DRAWS
) -> list[Difference]:
    """Every score over the rows that both runs have.

    Raises:
        ValueError: They have no row in common.
    """
    one = {row["id"]: row["counts"] for row in before["rows"]}
    two = {row["id"]: row["counts"] for row in after["rows"]}
    shared = [name for name in one if name in two]
    if not shared:
        raise ValueError("the two runs have no row in common: run the same rows in both")
    drawn = draw(len(shared), draws=draws)
    found = []
    for score in SCORES:
        left, right = (
            counts([of_rows[name].get(score, (0, 0)) for name in shared]) for of_rows in (one, two)
        )
        if left[:, 1].sum() and right[:, 1].sum():
            lower = score in LOWER_IS_BETTER
            found.append(difference(score, left, right, drawn, lower_is_better=lower))
    return found


def show_differences(before: Mapping[str, Any], after: Mapping[str, Any], console: Console) -> None:
    """Print the differences, and the rows whose recall changed.

    Raises:
        ValueError: The runs have no row in common.
    """
    found = differences(before, after)
    title = f"A: {_named(before)}, B: {_named(after)}"
    console.print(as_table(title, found, _shown, _titled))
    one, two = (
        {row["id"]: float(row["counts"]["recall"][0]) for row in run["rows"]}
        for run in (before, after)
    )
    show_moved(one, two, "rows", console)


def _named(run: Mapping[str, Any]) -> str:
    return f"{run['model'] or run['extractor']} ({run['prompt_version']})"


def _titled(score: str) -> str:
    return f"{score} per 1,000" if score in _PER_THOUSAND else score


def _shown(score: str, value: float, sign: bool) -> str:
    if np.isnan(value):
        return "-"
    plus = "+" if sign else ""
    if score in _PER_THOUSAND:
        return f"{value * 1000:{plus}.2f}"
    if score in _AMOUNTS:
        return f"{value:{plus}.0f}"
    return f"{value * 100:{plus}.1f} %"
