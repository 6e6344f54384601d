"""The command `python -m benchmarks.locomo`; the package's docstring says what it measures."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from benchmarks.command import Benchmark, Skipped, main, positive
from benchmarks.locomo.data import SOURCES, choose, load
from benchmarks.locomo.measure import KINDS, PARTS, available, measure
from benchmarks.locomo.report import locomo_part
from benchmarks.report import BenchmarkResult
from benchmarks.serving import temporary_place


async def _measure(given: argparse.Namespace) -> BenchmarkResult:
    found = [
        load(Path(folder), source)
        for source in SOURCES
        for folder in os.environ.get(source.variable, "").split(os.pathsep)
        if folder
    ]
    if not found:
        raise Skipped(
            f"set LOCOMO_DIR to the folder of {SOURCES[0].transcripts}, or EVAL_DIR to a folder of "
            "your own (see benchmarks/README.md)"
        )
    parts = []
    for data in found:
        chosen = choose(data, given.limit)
        for kind in given.embedder or available(os.environ):
            async with temporary_place() as place:
                asked = given.only or PARTS
                run = await measure(chosen, kind, place, parts=asked)
            parts.append(locomo_part(run))
    return BenchmarkResult("locomo", parts)


def _arguments(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument
    meaning = (
        "repeatable (default: offline, onnx with HITHERTO_ONNX_MODEL_DIR, openai with "
        "EMBEDDING_MODEL and OPENAI_BASE_URL or OPENAI_API_KEY)"
    )
    add("--embedder", action="append", choices=KINDS, help=meaning)
    add("--limit", type=positive, metavar="N", help="only so many questions, spread over all")
    meaning = "repeatable: what a search finds, or what stands in the block of GetContext"
    add("--only", action="append", choices=PARTS, help=meaning)


BENCHMARK = Benchmark(
    name="locomo",
    description="Measure what is found of real conversations. LOCOMO_DIR names the folder of the "
    "data, which are not part of this project, EVAL_DIR one of your own.",
    arguments=_arguments,
    measure=_measure,
)

if __name__ == "__main__":
    main(BENCHMARK)
