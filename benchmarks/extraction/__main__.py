"""The command `python -m benchmarks.extraction`; the package's docstring says what it measures."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.command import Benchmark, main, positive
from benchmarks.extraction.report import extraction_result
from benchmarks.extraction.rows import CATEGORIES, LANGUAGES, choose, load
from benchmarks.extraction.run import PATIENCE, run
from benchmarks.extraction.scores import judge_row
from benchmarks.report import BenchmarkResult
from benchmarks.serving import temporary_place


async def _measure(given: argparse.Namespace) -> BenchmarkResult:
    rows = choose(load(), languages=given.language, categories=given.category, limit=given.limit)
    async with temporary_place() as place:
        ran = await run(rows, place, patience=given.patience)
    return extraction_result(ran, [judge_row(seen, ran.nearness) for seen in ran.observations])


def _arguments(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument
    repeated: dict[str, Any] = {"action": "append", "default": []}
    add("--limit", type=positive, metavar="N", help="only so many rows")
    add("--language", choices=list(LANGUAGES), help="repeatable", **repeated)
    meaning = f"repeatable; one of {', '.join(CATEGORIES)}"
    add("--category", choices=CATEGORIES, metavar="CATEGORY", help=meaning, **repeated)
    meaning = "after which a row counts as failed (default: %(default)g)"
    add("--patience", type=float, default=PATIENCE, metavar="SECONDS", help=meaning)


BENCHMARK = Benchmark(
    name="extraction",
    description="Measure what is learnt from written conversations. The model is the one that "
    "OPENAI_BASE_URL, OPENAI_API_KEY and MEMORY_EXTRACTION_MODEL name; without them the offline "
    "rules are measured.",
    arguments=_arguments,
    measure=_measure,
)

if __name__ == "__main__":
    main(BENCHMARK)
