"""Retrieval quality on real conversations: LoCoMo's sessions through the public RPCs.

    LOCOMO_DIR=… python -m benchmarks.locomo [--embedder onnx|offline] [--json FILE]

`LOCOMO_DIR` holds `locomo_dev_transcripts.jsonl` and `locomo_dev.json` (Maharana et al., ACL 2024;
CC BY-NC: it is not part of this project). Every session goes through SubmitTranscripts; a scripted
model answers with the facts a language model once extracted from it, so that the whole pipeline
runs without a paid API. Every question then goes through SearchMemories.

Metric: recall@k, the share of a question's gold messages that are sources of the first k results,
averaged over the questions; nDCG@10 with a result as relevant when one of its sources is gold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.serving import reading, temporary_place, writing
from recollect.v1 import (
    conversation_pb2,
    extraction_service_pb2,
    job_pb2,
    memory_pb2,
    retrieval_service_pb2,
)
from tests.scripted_model import ScriptedModel, facts_script

TRANSCRIPTS = "locomo_dev_transcripts.jsonl"
QUESTIONS = "locomo_dev.json"
TOP = 10


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one run."""

    embedder: str
    sessions: int
    succeeded: int
    summaries: int
    memories: int
    with_sources: int
    questions: int
    recall_at_10: float
    recall_at_5: float
    ndcg_at_10: float
    by_category: Mapping[str, float]
    search_p50_ms: float
    seconds: float


async def measure(folder: Path, embedder: str, console: Console) -> Report:
    """Run the whole benchmark in a temporary data folder."""
    rows = [json.loads(line) for line in (folder / TRANSCRIPTS).open(encoding="utf-8")]
    queries = json.loads((folder / QUESTIONS).read_text("utf-8"))["queries"]
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        place = await stack.enter_async_context(temporary_place())
        model = await stack.enter_async_context(ScriptedModel(facts_script(rows)))
        settings: dict[str, Any] = {
            "openai_base_url": model.base_url,
            "extractor": "openai",
            "embedder": embedder,
        }
        services = await stack.enter_async_context(writing(place, **settings))
        writer = services.transcripts
        reader = await stack.enter_async_context(
            reading(place, embedding_deadline_ms=5_000, **settings)
        )
        jobs = await _submit(writer, rows, console)
        users = sorted({row["user_id"] for row in rows})
        memories = [m for user in users for m in await _memories(reader, user)]
        summaries = sum([await _conversations(reader, user) for user in users])
        found, latencies = await _ask(reader, queries, console)
    scores = [(query["category"], *_score(query["gold"], found[query["id"]])) for query in queries]
    by_category: defaultdict[str, list[float]] = defaultdict(list)
    for category, at_10, _, _ in scores:
        by_category[category].append(at_10)
    return Report(
        embedder=embedder,
        sessions=len(rows),
        succeeded=sum(job.state == job_pb2.JOB_STATE_SUCCEEDED for job in jobs),
        summaries=summaries,
        memories=len(memories),
        with_sources=sum(bool(memory.source_message_ids) for memory in memories),
        questions=len(queries),
        recall_at_10=statistics.fmean(score[1] for score in scores),
        recall_at_5=statistics.fmean(score[2] for score in scores),
        ndcg_at_10=statistics.fmean(score[3] for score in scores),
        by_category={
            name: statistics.fmean(values) for name, values in sorted(by_category.items())
        },
        search_p50_ms=statistics.median(latencies) * 1000,
        seconds=time.monotonic() - started,
    )


async def _submit(writer: Any, rows: Sequence[Mapping[str, Any]], console: Console) -> list[Any]:
    request = extraction_service_pb2.SubmitTranscriptsRequest
    watch = extraction_service_pb2.WatchJobRequest
    accepted = []
    for start in range(0, len(rows), 50):
        response = await writer.SubmitTranscripts(
            request(transcripts=[_transcript(row) for row in rows[start : start + 50]])
        )
        accepted.extend(response.jobs)
    ended = []
    for job in track(accepted, "extracting", console=console):
        last = job
        async for update in writer.WatchJob(watch(job_id=job.id)):
            last = update.job
        ended.append(last)
    return ended


async def _memories(reader: Any, user: str) -> list[Any]:
    found: list[Any] = []
    token = ""
    while True:
        page = await reader.ListMemories(
            retrieval_service_pb2.ListMemoriesRequest(
                user_id=user, page_size=1_000, page_token=token, statuses=_EVERY_STATUS
            )
        )
        found.extend(page.memories)
        token = page.next_page_token
        if not token:
            return found


async def _conversations(reader: Any, user: str) -> int:
    page = await reader.ListConversations(
        retrieval_service_pb2.ListConversationsRequest(user_id=user)
    )
    return int(page.total_size)


async def _ask(
    reader: Any, queries: Sequence[Mapping[str, Any]], console: Console
) -> tuple[dict[str, list[list[str]]], list[float]]:
    """The source messages of each question's results, and how long each search took."""
    found: dict[str, list[list[str]]] = {}
    latencies = []
    for query in track(queries, "asking", console=console):
        began = time.monotonic()
        response = await reader.SearchMemories(
            retrieval_service_pb2.SearchMemoriesRequest(
                user_id=query["user"],
                query=query["question"],
                limit=TOP,
                reference_time=_REFERENCE,
            )
        )
        latencies.append(time.monotonic() - began)
        found[query["id"]] = [list(r.memory.source_message_ids) for r in response.results]
    return found, latencies


def _score(gold: Sequence[str], results: Sequence[Sequence[str]]) -> tuple[float, float, float]:
    """Recall at 10 and at 5, and nDCG at 10."""
    wanted = set(gold)

    def recall(k: int) -> float:
        return len(wanted & {source for sources in results[:k] for source in sources}) / len(wanted)

    gains = [
        1 / math.log2(rank + 2) for rank, sources in enumerate(results) if wanted & set(sources)
    ]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(len(wanted), TOP)))
    return recall(10), recall(5), min(1.0, sum(gains) / ideal)


def _transcript(row: Mapping[str, Any]) -> conversation_pb2.Transcript:
    messages = [{**message, "role": f"ROLE_{message['role']}"} for message in row["messages"]]
    return json_format.ParseDict(
        {
            "user_id": row["user_id"],
            "conversation_id": row["conversation_id"],
            "messages": messages,
            "ended": True,
        },
        conversation_pb2.Transcript(),
    )


_EVERY_STATUS = [number for number in memory_pb2.MemoryStatus.values() if number]

# The conversations end in 2023: a month without a year is meant to lie in them.
_REFERENCE = retrieval_service_pb2.SearchMemoriesRequest().reference_time
_REFERENCE.FromDatetime(datetime(2024, 1, 31))


def main() -> None:
    """Run and print a table; `--json FILE` writes the figures too."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.locomo", description=__doc__)
    parser.add_argument("--embedder", choices=["onnx", "offline"], default=None)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    console = Console(stderr=True)
    folder = os.environ.get("LOCOMO_DIR")
    if not folder or not (Path(folder) / TRANSCRIPTS).exists():
        print(f"skipped: set LOCOMO_DIR to the folder of {TRANSCRIPTS} (see benchmarks/README.md)")
        sys.exit(0)
    embedders = (
        [arguments.embedder]
        if arguments.embedder
        else ["offline", *(["onnx"] if os.environ.get("RECOLLECT_ONNX_MODEL_DIR") else [])]
    )
    reports = [asyncio.run(measure(Path(folder), name, console)) for name in embedders]
    table = Table(title="LoCoMo, facts as memories")
    for name in ("embedder", "jobs", "summaries", "memories", "R@10", "R@5", "nDCG@10", "p50"):
        table.add_column(name, justify="right")
    for report in reports:
        table.add_row(
            report.embedder,
            f"{report.succeeded}/{report.sessions}",
            str(report.summaries),
            f"{report.memories} ({report.with_sources} with sources)",
            f"{report.recall_at_10:.3f}",
            f"{report.recall_at_5:.3f}",
            f"{report.ndcg_at_10:.3f}",
            f"{report.search_p50_ms:.1f} ms",
        )
    Console().print(table)
    for report in reports:
        print(report.embedder, {k: round(v, 3) for k, v in report.by_category.items()})
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(report) for report in reports], indent=2))


if __name__ == "__main__":
    main()
