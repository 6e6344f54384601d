"""The command `python -m benchmarks.extraction`; the package's docstring says what it measures.

Exit code 0 when the run came to its end, whatever the scores; 1 when it could not; 2 for arguments
or data that cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console

from benchmarks.extraction.calls import PATIENCE, Unplaced
from benchmarks.extraction.compare import read_result, show_differences
from benchmarks.extraction.judge import Judge
from benchmarks.extraction.loading import BadData, choose, load
from benchmarks.extraction.report import as_json, show
from benchmarks.extraction.rows import CATEGORIES, LANGUAGES, ConversationCase
from benchmarks.extraction.run import Ran, run
from benchmarks.extraction.scores import Opinion, judge_row
from benchmarks.serving import temporary_place
from benchmarks.terminal import output, positive, progress
from hitherto_extraction.config import ExtractionSettings
from hitherto_shared.config import describe
from hitherto_shared.database.embedded import EmbeddedPostgresError


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or compare two results; returns the exit code."""
    given = _parser().parse_args(arguments)
    complaints = Console(stderr=True)
    try:
        if given.command == "compare":
            show_differences(read_result(given.a), read_result(given.b), output())
            return 0
        return _measure(given, complaints)
    except ValidationError as error:
        complaints.print(f"extraction: {describe(error)}", markup=False, style="red")
        return 2
    except (BadData, ValueError) as error:
        complaints.print(f"extraction: {error}", markup=False, style="red")
        return 2
    except (Unplaced, EmbeddedPostgresError, OSError) as error:
        complaints.print(f"extraction: {error}", markup=False, style="red")
        return 1


def _measure(given: argparse.Namespace, complaints: Console) -> int:
    rows = choose(load(), languages=given.language, categories=given.category, limit=given.limit)
    ran, opinions = asyncio.run(_run(rows, given.patience, given.judge, complaints))
    verdicts = [
        judge_row(seen, ran.nearness, opinion)
        for seen, opinion in zip(ran.observations, opinions, strict=True)
    ]
    show(ran, verdicts, output())
    if given.judge:
        silent = sum(opinion is None for opinion in opinions)
        print(f"judged by {given.judge}; {silent} rows without a usable opinion")
    if given.json:
        text = json.dumps(as_json(ran, verdicts, given.judge or ""), indent=2, ensure_ascii=False)
        given.json.write_text(text + "\n", "utf-8")
    return 0


async def _run(
    rows: Sequence[ConversationCase], patience: float, judge: str | None, complaints: Console
) -> tuple[Ran, list[Opinion | None]]:
    opinions: list[Opinion | None] = [None] * len(rows)
    asked = Judge(judge, ExtractionSettings()) if judge else None
    try:
        with progress(complaints) as bars:
            extracting = bars.add_task("extracting", total=len(rows))
            async with temporary_place() as place:
                ran = await run(
                    rows, place, patience=patience, done=lambda: bars.advance(extracting)
                )
            if asked is not None:
                judging = bars.add_task("judging", total=len(rows))
                opinions = await asked.opinions(ran.observations, lambda: bars.advance(judging))
    finally:
        if asked is not None:
            await asked.close()
    return ran, opinions


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.extraction",
        description="Measure what is learnt from written conversations. The model is the one that "
        "OPENAI_BASE_URL, OPENAI_API_KEY and MEMORY_EXTRACTION_MODEL name; without them the "
        "offline rules are measured.",
    )
    parser.set_defaults(command="run")
    parser.add_argument("--limit", type=positive, metavar="N", help="only so many rows")
    parser.add_argument(
        "--language", action="append", default=[], choices=list(LANGUAGES), help="repeatable"
    )
    parser.add_argument(
        "--category",
        action="append",
        default=[],
        choices=CATEGORIES,
        metavar="CATEGORY",
        help=f"repeatable; one of {', '.join(CATEGORIES)}",
    )
    parser.add_argument("--judge", metavar="MODEL", help="let this model judge meaning as well")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure and text")
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        metavar="SECONDS",
        help="after which a row counts as failed (default: %(default)g)",
    )
    commands = parser.add_subparsers(dest="command_given", metavar="")
    compare = commands.add_parser("compare", help="show how two JSON results differ")
    compare.set_defaults(command="compare")
    compare.add_argument("a", type=Path, metavar="A.json")
    compare.add_argument("b", type=Path, metavar="B.json")
    return parser


if __name__ == "__main__":
    # What the services warn of stands in the report (the offline rules) or is meant (no keys).
    logging.getLogger("hitherto").setLevel(logging.ERROR)
    sys.exit(main())
