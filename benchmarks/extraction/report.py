"""What the verdicts over all rows come to: figures by group, a table, and what each row taught."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.extraction.rows import CATEGORIES, LANGUAGES
from benchmarks.extraction.run import BLOCK_TOKENS, REFERENCE_MODEL, EvaluationRun
from benchmarks.extraction.scores import LOWER_IS_BETTER, SCORES, Counts, Verdict, add, ratio
from benchmarks.report import BenchmarkResult, FigureTable, ResultPart, RowScore, sections

TARGET_USD_PER_THOUSAND = 5.0
"""What 1,000 conversations may cost (B14)."""

_SHARES = {name: column for name, (column, _) in SCORES.items() if column}


def extraction_result(ran: EvaluationRun, verdicts: Sequence[Verdict]) -> BenchmarkResult:
    """Everything a run found; what each row taught is among the details."""
    groups = _groups(ran, verdicts)
    title = f"Extraction by {ran.by.model or ran.by.extractor}, {ran.by.prompt_version}"
    part = ResultPart(
        title=title,
        figures={
            f"{name}: {score}": value
            for _, name, _, counts in groups
            for score in SCORES
            if (value := ratio(counts, score)) is not None
        },
        tables=[_table(title, groups)],
        notes=notes(ran, groups[0][3]),
        rows=[seen.row.id for seen in ran.observations],
        scores=row_scores([verdict.counts for verdict in verdicts]),
    )
    details = {
        "extractor": ran.by.extractor,
        "model": ran.by.model,
        "embedder": ran.embedder,
        "prompt_version": ran.by.prompt_version,
        "seconds": round(ran.seconds, 1),
        "rows": [
            {
                "id": seen.row.id,
                "language": seen.row.language,
                "category": seen.row.category,
                "learnt": seen.learnt,
                "verdict": verdict,
                "error": seen.error,
            }
            for seen, verdict in zip(ran.observations, verdicts, strict=True)
        ],
    }
    return BenchmarkResult("extraction", [part], details)


def row_scores(counts: Sequence[Counts]) -> dict[str, RowScore]:
    """Every score, by what each row adds to it."""
    found = {}
    for name in SCORES:
        above, below = zip(*(of_row.get(name, (0.0, 0.0)) for of_row in counts), strict=True)
        lower = name in LOWER_IS_BETTER
        if name.startswith("usd"):
            score = RowScore(above, below, lower, scale=1_000, digits=2)
            found[f"{name} per 1,000"] = score
        elif name.endswith("tokens"):
            found[name] = RowScore(above, below, lower, digits=0)
        else:
            found[name] = RowScore(above, below, lower, 100, 1, " %", names_rows=name == "recall")
    return found


def _groups(ran: EvaluationRun, verdicts: Sequence[Verdict]) -> list[tuple[str, str, int, Counts]]:
    """Kind, name, rows and counts of each group of rows that is reported and has any."""
    judged = [(seen.row, v.counts) for seen, v in zip(ran.observations, verdicts, strict=True)]
    members = [
        ("", "overall", [counts for _, counts in judged]),
        *(
            ("language", name, [counts for row, counts in judged if row.language == language])
            for language, name in LANGUAGES.items()
        ),
        *(
            ("category", name, [counts for row, counts in judged if row.category == name])
            for name in CATEGORIES
        ),
    ]
    return [(kind, name, len(of), add(of)) for kind, name, of in members if of]


def _table(title: str, groups: Sequence[tuple[str, str, int, Counts]]) -> FigureTable:
    def row(name: str, rows: int, total: Counts) -> Sequence[str]:
        return (name, str(rows), *(share(ratio(total, score)) for score in _SHARES))

    kinds = dict.fromkeys(kind for kind, *_ in groups)
    rows = sections(
        [row(name, size, total) for of, name, size, total in groups if of == kind] for kind in kinds
    )
    return FigureTable(title, ("", "rows", *_SHARES.values()), rows)


def notes(ran: EvaluationRun, overall: Counts) -> list[str]:
    """Tokens, money and block sizes, as sentences."""
    estimated = any(seen.spent.estimated for seen in ran.observations)
    read, written = ratio(overall, "input_tokens") or 0, ratio(overall, "output_tokens") or 0
    would = "would cost" if estimated else "cost"
    thousand = (ratio(overall, "usd_reference") or 0.0) * 1000
    lines = [
        f"extractor {ran.by.extractor}, model {ran.by.model}, embedder {ran.embedder}, "
        f"{ran.seconds:.0f} s",
        f"{read:.0f} tokens in and {written:.0f} out a transcript"
        + (" (estimated: no model was asked)" if estimated else ""),
        f"1,000 conversations {would} ${thousand:.2f} at {REFERENCE_MODEL}'s shipped prices "
        f"(target: at most ${TARGET_USD_PER_THOUSAND:g})",
    ]
    if not estimated:
        own = (ratio(overall, "usd") or 0.0) * 1000
        lines.append(f"1,000 conversations cost ${own:.2f} at the prices of {ran.by.model}")
    for language, block in ran.blocks.items():
        lines.append(
            f"prompt block in {LANGUAGES[language]}: {block.prompt_tokens} tokens for "
            f"{len(block.memories)} memories (target: at most {BLOCK_TOKENS} for 20)"
        )
    failed = [seen for seen in ran.observations if seen.error]
    if failed:
        lines.append(f"{len(failed)} rows failed, the first: {failed[0].row.id}: {failed[0].error}")
    return lines


def share(value: float | None) -> str:
    """A share as a percentage, or a dash where there was nothing to score."""
    return "-" if value is None else f"{value * 100:.1f} %"
