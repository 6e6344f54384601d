"""The command `python -m benchmarks.state`; the package's docstring says what it measures."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import serving
from benchmarks.command import Benchmark, Skipped, main
from benchmarks.report import BenchmarkResult, ResultPart
from benchmarks.state import people, replies
from benchmarks.state.model import Recording, Sessions
from benchmarks.state.people import Person
from benchmarks.state.run import AT_ONCE, talk
from hitherto_extraction.pipeline.prompt import VERSION
from tests.scripted_model import ScriptedModel

_PATIENT = 600.0


async def _measure(given: argparse.Namespace) -> BenchmarkResult:
    chosen = _chosen(given.person, given.language)
    if given.record is not None:
        return await _record(chosen, given.record)
    raise Skipped("nothing is recorded")


async def _record(chosen: Sequence[Person], folder: Path) -> BenchmarkResult:
    """Let somebody answer the prompts of people whose replies are not recorded yet."""
    records = {each.id: replies.load(VERSION, each.id) for each in chosen}
    recording = Recording(Sessions(chosen), folder, VERSION, records)
    async with (
        ScriptedModel(recording.answer) as model,
        serving.temporary_place() as place,
        serving.serving(
            place,
            extractor="openai",
            embedder="offline",
            openai_base_url=model.base_url,
            model_timeout_seconds=_PATIENT,
            worker_concurrency=64,
            daily_changes=1_000,
        ) as client,
    ):

        async def one(person: Person) -> None:
            for session in person.sessions:
                job = await talk(client, person, session)
                print(person.id, session.id, job.state, job.error, dict(job.result.counts))

        await serving.in_turns(chosen, one, at_once=len(chosen), phase="recording")
    return BenchmarkResult("state", [ResultPart("Recorded", {"people": float(len(chosen))})])


def _chosen(names: Sequence[str], languages: Sequence[str]) -> list[Person]:
    found = [
        each
        for each in people.load()
        if (not names or each.id in names) and (not languages or each.language in languages)
    ]
    if not found:
        raise ValueError("nobody has such a name or language")
    return found


def _arguments(parser: argparse.ArgumentParser) -> None:
    add: Any = parser.add_argument
    repeated: dict[str, Any] = {"action": "append", "default": []}
    add("--person", metavar="NAME", help="only this person; repeatable", **repeated)
    add("--language", metavar="CODE", help="only this language; repeatable", **repeated)
    meaning = "write prompts into this folder and wait there for replies to record"
    add("--record", type=Path, metavar="FOLDER", help=meaning)


BENCHMARK = Benchmark(
    name="state",
    description="Measure what is believed of forty people over their sessions.",
    arguments=_arguments,
    measure=_measure,
)

if __name__ == "__main__":
    main(BENCHMARK)
