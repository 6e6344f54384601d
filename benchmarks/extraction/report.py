"""Tables for a reader, and the same figures as JSON for `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from benchmarks.extraction.rows import CATEGORIES, LANGUAGES, ConversationCase
from benchmarks.extraction.run import BLOCK_TOKENS, EvaluationRun
from benchmarks.extraction.scores import SCORES, Counts, Verdict, add, ratio
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
    for name, counts in groups:
        kind = name.partition(":")[0]
        if section and kind != section:
            rows.append(None)
        section = kind
        shares = (share(ratio(counts, score)) for score in _SHARES)
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
