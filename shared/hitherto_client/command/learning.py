"""`hitherto learn`; what was learnt, in words; and which conversations wait to be learnt from."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from hitherto.v1 import extraction_service_pb2 as writing
from hitherto.v1 import job_pb2, memory_pb2
from hitherto.v1 import retrieval_service_pb2 as reading
from hitherto_client import Hitherto
from hitherto_client.command.jobs import exit_code, follow, show_jobs
from hitherto_client.command.options import Argument, connect, wait
from hitherto_client.command.output import OK, Output
from hitherto_client.command.progress import if_stopped
from hitherto_client.command.rpc import Command
from hitherto_client.command.show import day, dollars, word_of
from hitherto_client.results import ConversationSummary

_TYPES = memory_pb2.MemoryType.DESCRIPTOR
_SHOWN = 12
"""Memories that are written out; the others are counted."""
_LEAST = 3
"""Of each of several people."""
_RULES = "offline"
"""The extractor that is no language model."""
_MOST_USERS = 5
_MOST_MEMORIES = 1_000
_PAGE = 200
_SUMS = {
    "memories_created": "learnt",
    "memories_updated": "said again or changed",
    "memories_contradicted": "no longer true",
    "goals_achieved": "reached",
}
_OPEN = (job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING, job_pb2.JOB_STATE_FAILED)
_ENDED = (memory_pb2.MEMORY_STATUS_CONTRADICTED, memory_pb2.MEMORY_STATUS_SUPERSEDED)
_STATUSES = (memory_pb2.MEMORY_STATUS_ACTIVE, memory_pb2.MEMORY_STATUS_ACHIEVED, *_ENDED)


def waiting(client: Hitherto, user: str, *, every: bool = False) -> list[ConversationSummary]:
    """The conversations of a user with messages that no job has read.

    With `every`, of all pages, instead of those that were active last.
    """
    listed = client.conversations(user, page_size=_PAGE)
    return [each for each in (listed if every else listed.page().items) if each.pending_messages]


def tell_waiting(output: Output, user: str, found: Sequence[ConversationSummary]) -> None:
    """Say what waits to be learnt from, until when, and what ends the wait."""
    if not found:
        return
    now = datetime.now(UTC)
    first = min(each.learns_at or now for each in found)
    left = max(0.0, (first - now).total_seconds())
    when = f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"
    one = len(found) == 1
    output.note(
        f"{len(found)} {'conversation waits' if one else 'conversations wait'}, "
        f"{'learns' if one else 'the first learns'} in {when}, or now: "
        f"`hitherto learn {shlex.quote(user)}`"
    )


def show_learnt(client: Hitherto, output: Output, jobs: Sequence[job_pb2.Job]) -> None:
    """What the jobs learnt, user by user; a table of those that did not succeed."""
    by_user: dict[str, list[job_pb2.Job]] = {}
    for job in jobs:
        by_user.setdefault(job.user_id, []).append(job)
    shown = list(by_user)[:_MOST_USERS]
    for user in shown:
        _show_learnt_of(client, output, user, by_user[user], max(_LEAST, _SHOWN // len(shown)))
    if len(by_user) > len(shown):
        output.line(f"and about {len(by_user) - len(shown)} more people")
    done = [job for job in jobs if job.state == job_pb2.JOB_STATE_SUCCEEDED]
    sums = {told: sum(getattr(job.result, name) for job in done) for name, told in _SUMS.items()}
    told = ", ".join(f"{count} {name}" for name, count in sums.items() if count)
    cost = sum(job.result.usage.cost_usd for job in done)
    if done:
        output.line(
            f"{len(done)} {'conversation' if len(done) == 1 else 'conversations'} read: "
            f"{told or 'nothing new to remember'}{f'; {dollars(cost)}' if cost else ''}"
        )
    if not told and any(job.result.extractor == _RULES for job in done):
        output.note(
            "they were read by rules for English and Vietnamese: a language model reads every"
            " language and learns more (set OPENAI_API_KEY where the services start)"
        )
    others = [job for job in jobs if job.state != job_pb2.JOB_STATE_SUCCEEDED]
    if others:
        show_jobs(output, others)


def _show_learnt_of(
    client: Hitherto, output: Output, user: str, jobs: Sequence[job_pb2.Job], room: int
) -> None:
    """Show up to `room` memories of one user that these jobs wrote."""
    ids = {job.id for job in jobs}
    request = reading.ListMemoriesRequest(
        user_id=user,
        statuses=_STATUSES,
        created_after=min((job.created_at for job in jobs), key=lambda at: at.ToNanoseconds()),
        page_size=_MOST_MEMORIES,
        consistency_token=jobs[-1].consistency_token,
    )
    reply = client.connection.retrieval.ListMemories(request)
    found = [memory for memory in reply.memories if memory.job_id in ids]
    if not found:
        return
    found.sort(key=lambda memory: (memory.status in _ENDED, -memory.importance))
    output.line(f"learnt about {user}:")
    for memory in found[:room]:
        ended = f" (until {day(memory.valid_to)})" if memory.status in _ENDED else ""
        output.line(f"  {word_of(_TYPES, memory.type):<10} {memory.content}{ended}")
    if len(found) > room:
        output.line(f"  and {len(found) - room} more: hitherto memories {shlex.quote(user)}")


def _run(options: argparse.Namespace, output: Output) -> int:
    user = options.user
    with (
        connect(options) as client,
        if_stopped(output, lambda: f"the jobs continue: see `hitherto jobs --user {user}`"),
    ):
        calls = client.connection.extraction
        jobs = {}
        for each in waiting(client, user, every=True):
            request = writing.EndConversationRequest(
                user_id=user, conversation_id=each.conversation_id
            )
            job = calls.EndConversation(request).job
            jobs[job.id] = job
        # What was submitted before runs already, or waits for its turn.
        running = calls.ListJobs(
            writing.ListJobsRequest(user_id=user, states=_OPEN, page_size=_PAGE)
        )
        jobs = {job.id: job for job in reversed(running.jobs)} | jobs
        shown = list(jobs.values())
        if not shown:
            output.note(f"nothing of {user} waits to be learnt from")
        elif options.wait:
            shown = follow(client, shown, output)
        document = writing.ListJobsResponse(jobs=shown, total_size=len(shown))
        if shown and options.wait:
            output.result(document, lambda: show_learnt(client, output, shown))
            return exit_code(shown)
    if shown or output.as_json:
        output.result(document, lambda: show_jobs(output, shown, totals=False))
    return OK


COMMANDS = (
    Command(
        "learn",
        "Learn now from the chats of a user that still wait for a pause.",
        Argument("user", "the id of the user", "USER"),
        wait("only start it"),
        run=_run,
    ),
)
