"""The command `python -m benchmarks.locomo`; the package's docstring says what it measures.

Exit code 0 when the run came to its end, whatever the scores, and when there are no data; 1 when it
could not; 2 for arguments, settings or data that cannot be used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError
from rich.console import Console
from rich.progress import Progress

from benchmarks.locomo.compare import read_result, show_differences
from benchmarks.locomo.data import SOURCES, Data, choose, load
from benchmarks.locomo.embedders import KINDS, available
from benchmarks.locomo.loading import NotLoaded
from benchmarks.locomo.measure import PARTS, EmbedderRun, measure
from benchmarks.locomo.report import as_json, show
from benchmarks.locomo.searching import Unanswered
from benchmarks.locomo.splitting import split_turns
from benchmarks.serving import temporary_place
from benchmarks.terminal import output, positive, progress
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
        found = [
            load(Path(folder), source)
            for source in SOURCES
            if (folder := os.environ.get(source.variable))
        ]
        if not found:
            print(
                f"locomo: skipped: set LOCOMO_DIR to the folder of {SOURCES[0].transcripts}, or "
                "EVAL_DIR to a folder of your own (see benchmarks/README.md)"
            )
            return 0
        if given.split_turns:
            found = [split_turns(data, given.split_turns) for data in found]
        return _measure(given, found, complaints)
    except ValidationError as error:
        complaints.print(f"locomo: {describe(error)}", markup=False, style="red")
        return 2
    except ValueError as error:
        complaints.print(f"locomo: {error}", markup=False, style="red")
        return 2
    except (NotLoaded, Unanswered, EmbeddedPostgresError, OSError) as error:
        complaints.print(f"locomo: {error}", markup=False, style="red")
        return 1


def _measure(given: argparse.Namespace, found: Sequence[Data], complaints: Console) -> int:
    runs: list[EmbedderRun] = []
    for data in found:
        for kind in given.embedder or available(os.environ):
            with progress(complaints) as bars:
                chosen = choose(data, given.limit)
                runs.append(asyncio.run(_run(chosen, kind, given.only or PARTS, bars)))
            show(runs[-1], output())
    if given.json:
        given.json.write_text(json.dumps(as_json(runs)) + "\n", "utf-8")
    return 0


async def _run(data: Data, kind: str, parts: Sequence[str], bars: Progress) -> EmbedderRun:
    async with temporary_place() as place:
        return await measure(data, kind, place, bars, parts=parts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.locomo",
        description="Measure what is found of real conversations. LOCOMO_DIR names the folder of "
        "the data, which are not part of this project, EVAL_DIR one of your own.",
    )
    parser.set_defaults(command="run")
    parser.add_argument(
        "--embedder",
        action="append",
        choices=KINDS,
        help="repeatable (default: offline, onnx with HITHERTO_ONNX_MODEL_DIR, openai with "
        "EMBEDDING_MODEL and OPENAI_BASE_URL or OPENAI_API_KEY)",
    )
    parser.add_argument(
        "--limit", type=positive, metavar="N", help="only so many questions, spread over all"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=PARTS,
        help="repeatable: what a search finds, or what stands in the block of GetContext",
    )
    parser.add_argument(
        "--split-turns",
        nargs="?",
        const="every",
        choices=("every", "longest"),
        help="send each message as several, split at its sentence ends; every piece of a gold "
        "message is gold (default), or only the longest",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure and score")
    commands = parser.add_subparsers(dest="command_given", metavar="")
    compare = commands.add_parser("compare", help="show how two JSON results differ")
    compare.set_defaults(command="compare")
    compare.add_argument("a", type=Path, metavar="A.json")
    compare.add_argument("b", type=Path, metavar="B.json")
    return parser


if __name__ == "__main__":
    # What the services warn of is meant: no keys, a scripted model.
    logging.getLogger("hitherto").setLevel(logging.ERROR)
    sys.exit(main())
