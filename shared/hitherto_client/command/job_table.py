"""Jobs as people read them: one row each, their totals, and why some did not succeed."""

from __future__ import annotations

from collections.abc import Sequence

from hitherto.v1 import job_pb2
from hitherto_client.command.exits import FAILED, OK
from hitherto_client.command.output import Output
from hitherto_client.command.values import counted, dollars, word_of

_STATES = job_pb2.JobState.DESCRIPTOR
_COUNTS = ("created", "updated", "contradicted", "goals", "dropped", "tokens", "cost")

_ROOM_FOR_COUNTS = 140
"""From this width on, every count has a column of its own."""


def show_jobs(output: Output, jobs: Sequence[job_pb2.Job], *, totals: bool = True) -> None:
    """Write the table, then a line for every job that waits for a retry or has failed."""
    wide = output.columns >= _ROOM_FOR_COUNTS
    counts = _counts if wide else _counts_in_words
    rows: list[Sequence[object]] = [
        (job.id, _subject(job), word_of(_STATES, job.state), *counts([job])) for job in jobs
    ]
    if totals and len(jobs) > 1:
        rows.append((f"{len(jobs)} jobs", "", _states(jobs), *counts(jobs)))
    headings = _COUNTS if wide else ("result",)
    output.table(
        ("job", "about", "state", *headings), rows, numbers=headings if wide else (), whole=("job",)
    )
    for job in jobs:
        if told := counted(job.result.counts):
            output.line(f"{job.id} ({job.kind}): {told}")
        elif job.result.counts and not _did_something(job.result):
            output.line(f"{job.id} ({job.kind}): nothing to do")
    for job in jobs:
        if job.error:
            output.note(f"{job.id} is {word_of(_STATES, job.state)}: {job.error}")
    if any(job.state == job_pb2.JOB_STATE_DEAD for job in jobs):
        output.note("queue a dead job again with `hitherto jobs --retry ID`")


def exit_code(jobs: Sequence[job_pb2.Job]) -> int:
    """0 if every job succeeded."""
    return OK if all(job.state == job_pb2.JOB_STATE_SUCCEEDED for job in jobs) else FAILED


def _did_something(result: job_pb2.JobResult) -> bool:
    """Whether a job changed or asked anything, whatever its counts say."""
    return bool(
        result.memories_created
        or result.memories_updated
        or result.memories_contradicted
        or result.goals_achieved
        or result.dropped_items
        or result.usage.llm_calls
        or result.usage.embedding_calls
    )


def _subject(job: job_pb2.Job) -> str:
    return " / ".join(part for part in (job.user_id, job.conversation_id) if part) or job.kind


def _counts(jobs: Sequence[job_pb2.Job]) -> tuple[object, ...]:
    results = [job.result for job in jobs]
    usage = [result.usage for result in results]
    tokens = sum(item.input_tokens + item.output_tokens + item.embedding_tokens for item in usage)
    return (
        sum(result.memories_created for result in results),
        sum(result.memories_updated for result in results),
        sum(result.memories_contradicted for result in results),
        sum(result.goals_achieved for result in results),
        sum(result.dropped_items for result in results),
        tokens,
        dollars(sum(item.cost_usd for item in usage)),
    )


def _counts_in_words(jobs: Sequence[job_pb2.Job]) -> tuple[object, ...]:
    named = zip(_COUNTS, _counts(jobs), strict=True)
    return (
        ", ".join(f"{count} {name}" for name, count in named if count not in (0, dollars(0.0))),
    )


def _states(jobs: Sequence[job_pb2.Job]) -> str:
    counted = {
        word_of(_STATES, value.number): sum(job.state == value.number for job in jobs)
        for value in _STATES.values
    }
    return ", ".join(f"{count} {state}" for state, count in counted.items() if count)
