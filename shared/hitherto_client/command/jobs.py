"""`hitherto watch` and `hitherto jobs`: work in the background, followed to its end, and shown."""

from __future__ import annotations

import argparse
import queue
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import grpc

from hitherto.v1 import extraction_service_pb2 as pb
from hitherto.v1 import job_pb2
from hitherto_client import Hitherto
from hitherto_client._sync.connection import Connection
from hitherto_client._sync.jobs import FINAL, watch_job
from hitherto_client.command.options import Argument, OneOf, connect
from hitherto_client.command.output import FAILED, OK, Output, UsageError
from hitherto_client.command.progress import QUIET_SECONDS, Bar, Waits, if_stopped
from hitherto_client.command.rpc import Command, Option, Rpc, given, of
from hitherto_client.command.show import counted, dollars, word_of
from hitherto_client.errors import HithertoCallError

_WATCHERS = 8
"""How many jobs are watched at a time; the others' turn comes when these have ended."""


def follow(client: Hitherto, jobs: Iterable[job_pb2.Job], output: Output) -> list[job_pb2.Job]:
    """Watch jobs until every one is final and return them in the order given."""
    known = {job.id: job for job in jobs}
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for job_id in _turns(known.values()):
        waiting.put(job_id)
    heard: queue.SimpleQueue[job_pb2.Job | Exception] = queue.SimpleQueue()
    stop = threading.Event()
    # Asked for here: a watcher that starts late would ask a client that is closed.
    connection = client.connection
    watchers = [
        threading.Thread(target=_watch_some, args=(connection, waiting, heard, stop), daemon=True)
        for _ in range(min(_WATCHERS, waiting.qsize()))
    ]
    ended = False
    with Bar(output) as bar:
        _show_progress(bar, known)
        for watcher in watchers:
            watcher.start()
        try:
            waits = Waits(client, output)
            while any(job.state not in FINAL for job in known.values()):
                try:
                    event = heard.get(timeout=QUIET_SECONDS)
                except queue.Empty:
                    waits.look(known.values())
                    continue
                if isinstance(event, Exception):
                    raise event
                known[event.id] = event
                waits.hear(event)
                _show_progress(bar, known)
            ended = True
        finally:
            stop.set()
            if not ended:
                # The only way to end a stream that another thread reads.
                client.close()
            for watcher in watchers:
                watcher.join(timeout=5.0)
    return list(known.values())


def _watch_some(
    connection: Connection,
    waiting: queue.SimpleQueue[str],
    heard: queue.SimpleQueue[job_pb2.Job | Exception],
    stop: threading.Event,
) -> None:
    while not stop.is_set():
        try:
            job_id = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            for job in watch_job(connection, job_id, timeout=None):
                heard.put(job)
        except (HithertoCallError, grpc.RpcError, ValueError) as error:
            # ValueError: gRPC says it of a channel that was closed meanwhile.
            if not stop.is_set():
                heard.put(error)
            return


def _turns(jobs: Iterable[job_pb2.Job]) -> list[str]:
    """Unfinished jobs, the first one of each user first, then the second ones, and so on.

    Jobs of one user run one after another: watching several of them shows one that moves.
    """
    seen: defaultdict[str, int] = defaultdict(int)
    turns: list[tuple[int, str]] = []
    for job in jobs:
        if job.state not in FINAL:
            turns.append((seen[job.user_id], job.id))
            seen[job.user_id] += 1
    turns.sort(key=lambda turn: turn[0])
    return [job_id for _, job_id in turns]


def _show_progress(bar: Bar, jobs: dict[str, job_pb2.Job]) -> None:
    done, total = measure(jobs.values())
    final = sum(job.state in FINAL for job in jobs.values())
    # Totals grow while jobs start; only when all have ended is everything done.
    share = done / total if total else final / max(len(jobs), 1)
    share = 1.0 if final == len(jobs) else min(share, 0.99)
    counts = f"{final} of {len(jobs)} jobs"
    if total:
        counts = f"{done} of {total} messages, {counts}"
    bar.show(share, counts)


def measure(jobs: Iterable[job_pb2.Job]) -> tuple[int, int]:
    """How many messages are read, and how many there are; a job that ended is done with its own."""
    done = total = 0
    for job in jobs:
        total += job.progress.messages_total
        ended = job.state in FINAL
        done += job.progress.messages_total if ended else job.progress.messages_done
    return done, total


_STATES = job_pb2.JobState.DESCRIPTOR
_DONE = {
    "created": "memories_created",
    "updated": "memories_updated",
    "contradicted": "memories_contradicted",
    "goals": "goals_achieved",
    "dropped": "dropped_items",
}
"""The counts of a result, by what they are called here."""
_COUNTS = (*_DONE, "tokens", "cost")

_ROOM_FOR_COUNTS = 140
"""From this width on, every count has a column of its own."""


def show_jobs(output: Output, jobs: Sequence[job_pb2.Job], *, totals: bool = True) -> None:
    """Write the table, then a line for every job that waits for a retry or has failed."""
    wide = output.stdout.width >= _ROOM_FOR_COUNTS
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
    done = any(getattr(result, name) for name in _DONE.values())
    return done or bool(result.usage.llm_calls or result.usage.embedding_calls)


def _subject(job: job_pb2.Job) -> str:
    return " / ".join(part for part in (job.user_id, job.conversation_id) if part) or job.kind


def _counts(jobs: Sequence[job_pb2.Job]) -> tuple[object, ...]:
    usage = [job.result.usage for job in jobs]
    tokens = sum(item.input_tokens + item.output_tokens + item.embedding_tokens for item in usage)
    done = (sum(getattr(job.result, name) for job in jobs) for name in _DONE.values())
    return (*done, tokens, dollars(sum(item.cost_usd for item in usage)))


def _counts_in_words(jobs: Sequence[job_pb2.Job]) -> tuple[object, ...]:
    named = zip(_COUNTS, _counts(jobs), strict=True)
    return (
        ", ".join(f"{count} {name}" for name, count in named if count not in (0, dollars(0.0))),
    )


def _states(jobs: Sequence[job_pb2.Job]) -> str:
    by_state = {
        word_of(_STATES, value.number): sum(job.state == value.number for job in jobs)
        for value in _STATES.values
    }
    return ", ".join(f"{count} {state}" for state, count in by_state.items() if count)


_MATCHING = ""
"""What `--retry` without an id stands for."""


def _show(output: Output, options: argparse.Namespace, reply: Any) -> None:
    if not reply.jobs:
        output.note("no matching jobs")
        return
    show_jobs(output, reply.jobs, totals=False)
    output.more(len(reply.jobs), reply.total_size, reply.next_page_token)


_LIST = Rpc(
    "ListJobs",
    (
        Option("--user", "user_id", "only jobs about this user", "ID"),
        Option("--conversation", "conversation_id", "only jobs that read this conversation", "ID"),
        Option("--state", "states", "only jobs in this state"),
    ),
    _show,
)
_MATCHES = (
    Option(
        "--reason", "reasons", "with --retry --all, only jobs whose error begins with it", "REASON"
    ),
    Option("--since", "created_after", "with --retry --all, only created at this time or later"),
    Option("--until", "created_before", "with --retry --all, only created before this time"),
)


def _watch(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        call = client.connection.extraction.GetJob
        jobs = [call(pb.GetJobRequest(job_id=job)).job for job in dict.fromkeys(options.jobs)]
        with if_stopped(output, lambda: "the jobs continue: see `hitherto jobs`"):
            final = follow(client, jobs, output)
    document = pb.ListJobsResponse(jobs=final, total_size=len(final))
    output.result(document, lambda: show_jobs(output, final))
    return exit_code(final)


def _jobs(options: argparse.Namespace, output: Output) -> int:
    matching = options.retry == _MATCHING
    if matching != (options.all and options.retry is not None):
        raise UsageError("--retry takes the id of a job, or --all for every one that matches")
    if not matching and any(getattr(options, option.field) for option in _MATCHES):
        raise UsageError("--reason, --since and --until choose what --retry --all retries")
    if matching and options.conversation_id:
        raise UsageError("--conversation does not go with --retry --all")
    with connect(options) as client:
        if matching:
            return _retry_all(client, options, output)
        calls = client.connection.extraction
        if options.retry or options.cancel:
            job = (
                calls.RetryJob(pb.RetryJobRequest(job_id=options.retry)).job
                if options.retry
                else calls.CancelJob(pb.CancelJobRequest(job_id=options.cancel)).job
            )
            reply = pb.ListJobsResponse(jobs=[job], total_size=1)
        else:
            reply = _LIST.call(client, options)
    _LIST.write(output, options, reply)
    return OK


def _retry_all(client: Hitherto, options: argparse.Namespace, output: Output) -> int:
    retried = client.retry_jobs(
        options.user_id or "",
        states=given(pb.RetryFilter, options, "states") or (),
        reasons=options.reasons or (),
        created_after=options.created_after,
        created_before=options.created_before,
    )
    if output.as_json:
        output.document({"retried": retried})
    elif retried:
        output.note(f"{retried} job{'s' if retried > 1 else ''} queued again")
    else:
        output.note("no matching jobs")
    return OK


COMMANDS = (
    Command(
        "watch",
        "Follow jobs until all have ended.",
        Argument("jobs", "id of a job", "JOB", nargs="+"),
        run=_watch,
    ),
    Command(
        "jobs",
        "List jobs, newest first; retry or cancel one.",
        _LIST,
        OneOf(
            Argument(
                "--retry",
                "retry a job that is dead, cancelled or waiting; with --all in place of "
                "an id, all jobs that the other options select (default: dead or waiting)",
                "ID",
                nargs="?",
                const=_MATCHING,
            ),
            Argument("--cancel", "cancel a job that has not ended", "ID"),
        ),
        *of(pb.RetryFilter, *_MATCHES),
        run=_jobs,
    ),
)
