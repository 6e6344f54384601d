"""The command `python -m benchmarks.extraction`; the package's docstring says what it measures."""

from __future__ import annotations

import argparse
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.command import Benchmark, main, positive
from benchmarks.extraction.judge import judging
from benchmarks.extraction.report import extraction_result
from benchmarks.extraction.rows import CATEGORIES, LANGUAGES, choose, load
from benchmarks.extraction.run import PATIENCE, run
from benchmarks.extraction.scores import Opinion, judge_row
from benchmarks.report import BenchmarkResult
from benchmarks.serving import in_turns, temporary_place
from hitherto_extraction.config import ExtractionSettings

_AT_ONCE = 4
"""Rows that are judged at a time."""


async def _measure(given: argparse.Namespace) -> BenchmarkResult:
    rows = choose(load(), languages=given.language, categories=given.category, limit=given.limit)
    opinions: list[Opinion | None] = [None] * len(rows)
    async with AsyncExitStack() as stack:
        ask = None
        if given.judge:
            judge = judging(given.judge, ExtractionSettings())
            ask = await stack.enter_async_context(judge)
        place = await stack.enter_async_context(temporary_place())
        ran = await run(rows, place, patience=given.patience)
        if ask is not None:
            opinions = await in_turns(ran.observations, ask, at_once=_AT_ONCE, phase="judging")
    verdicts = [
        judge_row(seen, ran.nearness, opinion)
        for seen, opinion in zip(ran.observations, opinions, strict=True)
    ]
    silent = opinions.count(None) if given.judge else None
    return extraction_result(ran, verdicts, given.judge or "", silent)


def _arguments(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument
    repeated: dict[str, Any] = {"action": "append", "default": []}
    add("--limit", type=positive, metavar="N", help="only so many rows")
    add("--language", choices=list(LANGUAGES), help="repeatable", **repeated)
    meaning = f"repeatable; one of {', '.join(CATEGORIES)}"
    add("--category", choices=CATEGORIES, metavar="CATEGORY", help=meaning, **repeated)
    add("--judge", metavar="MODEL", help="let this model judge meaning as well")
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
