"""`hitherto watch` and `hitherto jobs`: work in the background."""

from __future__ import annotations

import argparse
from typing import Any

from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_client import Hitherto
from hitherto_client.command.exits import OK, UsageError
from hitherto_client.command.follow import exit_code, follow, show_jobs
from hitherto_client.command.options import Argument, OneOf, connect
from hitherto_client.command.output import Output
from hitherto_client.command.progress import if_stopped
from hitherto_client.command.rpc import Command, Option, Rpc, given, of

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
        Option("--user", "user_id", "only jobs about this user", "USER"),
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
        None,
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
