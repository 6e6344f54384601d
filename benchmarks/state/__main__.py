"""The command `python -m benchmarks.state`; the package's docstring says what it measures."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks import serving
from benchmarks.command import Benchmark, Skipped, main
from benchmarks.report import BenchmarkResult, ResultPart
from benchmarks.state import adjudication, people, replies
from benchmarks.state.hostile import attack, hostile_part
from benchmarks.state.model import Playback, Recording, TalkIndex
from benchmarks.state.people import Persona
from benchmarks.state.replies import RecordedReply
from benchmarks.state.report import state_part
from benchmarks.state.run import AT_ONCE, observe, talk
from benchmarks.state.scores import Score, score
from hitherto_client import AsyncHitherto
from hitherto_extraction.pipeline.prompt import VERSION
from tests.scripted_model import ScriptedModel

_NO_LIMIT = 1_000


async def _measure(given: argparse.Namespace) -> BenchmarkResult:
    chosen = _chosen(given.person, given.language)
    records = {each.id: replies.load(VERSION, each.id) for each in chosen}
    if given.record is not None:
        return await _record(chosen, given.record, records)
    real = bool(os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY"))
    if not real:
        chosen = [each for each in chosen if records[each.id]]
        if not chosen:
            raise Skipped(f"no replies to {VERSION} are recorded for these people")
    playback = Playback(TalkIndex(chosen), records)
    parts: list[ResultPart] = []
    async with _services(None if real else playback.answer) as client:
        scores = await _talk(client, chosen, records)
        talks = sum(len(each.sessions) for each in chosen)
        notes = [] if real else _notes(playback, talks)
        languages = {each.id: each.language for each in chosen}
        verdicts = {} if real else adjudication.load(VERSION)
        parts.append(state_part(scores, languages, notes, verdicts))
    if given.missed:
        for name, found in scores.items():
            for line in found.missed:
                print(name, line)
    if not real and given.hostile:
        parts.append(hostile_part(await attack(chosen, records, given.hostile)))
    return BenchmarkResult("state", parts)


async def _talk(
    client: AsyncHitherto,
    chosen: Sequence[Persona],
    records: Mapping[str, Mapping[str, RecordedReply]],
) -> dict[str, Score]:
    read = adjudication.doubts()

    async def one(person: Persona) -> Score:
        return score(await observe(client, person), records[person.id], read)

    found = await serving.in_turns(chosen, one, at_once=AT_ONCE, phase="talking")
    return {person.id: each for person, each in zip(chosen, found, strict=True)}


@asynccontextmanager
async def _services(answer: Any, **given: Any) -> AsyncIterator[AsyncHitherto]:
    """Both services; the language model is `answer`, or, without one, that of the environment."""
    async with serving.temporary_place() as place:
        # What changes is reconciled at once: nobody waits for further sessions.
        settings: dict[str, Any] = {
            "daily_changes": _NO_LIMIT,
            "extract_debounce_seconds": 0,
            **given,
        }
        if answer is None:
            async with serving.serving(place, **settings) as client:
                yield client
            return
        async with ScriptedModel(answer) as model:
            settings |= {"extractor": "openai", "openai_base_url": model.base_url}
            if "HITHERTO_EMBEDDER" not in os.environ:
                settings["embedder"] = "offline"
            async with serving.serving(place, **settings) as client:
                yield client


def _notes(playback: Playback, talks: int) -> list[str]:
    share = playback.calls["reconciliation"] / max(1, talks)
    spent = playback.letters["reconciliation"] / max(1, playback.letters["extraction"])
    return [
        f"{share:.0%} of {talks} transcripts caused a call of the reconciliation, which read "
        f"{spent:.1%} of what extraction read; {playback.unknown} prompts had no recorded reply."
    ]


async def _record(
    chosen: Sequence[Persona], folder: Path, records: dict[str, dict[str, RecordedReply]]
) -> BenchmarkResult:
    """Let somebody answer the prompts of people whose replies are not recorded yet."""
    playback = Playback(TalkIndex(chosen), records, alike=1.0)
    recording = Recording(playback, folder, VERSION, records)
    limits = {"model_timeout_seconds": 600.0, "worker_concurrency": 64}
    async with _services(recording.answer, **limits) as client:

        async def one(person: Persona) -> None:
            for session in person.sessions:
                job = await talk(client, person, session)
                print(person.id, session.id, job.state, job.error, dict(job.result.counts))

        await serving.in_turns(chosen, one, at_once=len(chosen), phase="recording")
    return BenchmarkResult("state", [ResultPart("Recorded", {"people": float(len(chosen))})])


def _chosen(names: Sequence[str], languages: Sequence[str]) -> list[Persona]:
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
    add("--missed", action="store_true", help="print everything that was missed")
    meaning = "hostile replies to try in all; 0 for none (default: %(default)s)"
    add("--hostile", type=int, default=1_000, metavar="N", help=meaning)
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
