"""`hitherto watch` and `hitherto jobs`: work in the background."""

from __future__ import annotations

import argparse
from typing import Any

from hitherto.v1 import extraction_service_pb2, job_pb2
from hitherto_client.client import HithertoClient
from hitherto_client.command.exits import OK, UsageError
from hitherto_client.command.follow import follow
from hitherto_client.command.job_table import exit_code, show_jobs
from hitherto_client.command.options import (
    add_command,
    add_enum,
    add_paging,
    connect,
    moment,
    numbers,
    read_pages,
)
from hitherto_client.command.output import Output

_STATES = job_pb2.JobState.DESCRIPTOR
_MATCHING = ""
"""What `--retry` without an id stands for."""


def register(commands: Any) -> None:
    """Add the sub-commands."""
    watch = add_command(commands, "watch", "Follow jobs until all have ended.", _watch)
    watch.add_argument("jobs", nargs="+", metavar="JOB", help="id of a job")
    jobs = add_command(commands, "jobs", "List jobs, newest first; retry or cancel one.", _jobs)
    jobs.add_argument("--user", default="", help="only jobs about this user")
    jobs.add_argument("--conversation", default="", help="only jobs that read this conversation")
    add_enum(jobs, "--state", _STATES, "states", "only jobs in this state")
    add_paging(jobs)
    change = jobs.add_mutually_exclusive_group()
    change.add_argument(
        "--retry",
        nargs="?",
        const=_MATCHING,
        metavar="ID",
        help="retry a job that is dead, cancelled or waiting; with --all in place of an id, "
        "all jobs that the other options select (default: dead or waiting)",
    )
    change.add_argument("--cancel", metavar="ID", help="cancel a job that has not ended")

    jobs.add_argument(
        "--reason",
        dest="reasons",
        action="append",
        default=[],
        metavar="REASON",
        help="with --retry --all, only jobs whose error begins with it; may be given several times",
    )
    jobs.add_argument(
        "--since",
        type=moment,
        metavar="TIME",
        help="with --retry --all, only created at this time or later",
    )
    jobs.add_argument(
        "--until",
        type=moment,
        metavar="TIME",
        help="with --retry --all, only created before this time",
    )


def _watch(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        jobs = [client.get_job(job_id) for job_id in dict.fromkeys(options.jobs)]
        try:
            final = follow(client, jobs, output)
        except KeyboardInterrupt:
            output.note("the jobs continue: see `hitherto jobs`")
            raise
    if output.as_json:
        output.document(extraction_service_pb2.ListJobsResponse(jobs=final, total_size=len(final)))
    else:
        show_jobs(output, final)
    return exit_code(final)


def _jobs(options: argparse.Namespace, output: Output) -> int:
    matching = options.retry == _MATCHING
    if matching != (options.all and options.retry is not None):
        raise UsageError("--retry takes the id of a job, or --all for every one that matches")
    if not matching and (options.reasons or options.since or options.until):
        raise UsageError("--reason, --since and --until choose what --retry --all retries")
    if matching and options.conversation:
        raise UsageError("--conversation does not go with --retry --all")
    with connect(options) as client:
        if matching:
            return _retry_all(client, options, output)
        if options.retry or options.cancel:
            job = (
                client.retry_job(options.retry)
                if options.retry
                else client.cancel_job(options.cancel)
            )
            reply = extraction_service_pb2.ListJobsResponse(jobs=[job], total_size=1)
        else:
            reply = read_pages(
                options,
                "jobs",
                lambda size, token: client.list_jobs(
                    user_id=options.user,
                    conversation_id=options.conversation,
                    states=numbers(_STATES, options.states),
                    page_size=size,
                    page_token=token,
                ),
            )
    if output.as_json:
        output.document(reply)
        return OK
    if not reply.jobs:
        output.note("no matching jobs")
        return OK
    show_jobs(output, reply.jobs, totals=False)
    output.more(len(reply.jobs), reply.total_size, reply.next_page_token)
    return OK


def _retry_all(client: HithertoClient, options: argparse.Namespace, output: Output) -> int:
    states = numbers(_STATES, options.states)
    # A job that fails again at once matches again: no more are retried than there were.
    left = client.list_jobs(user_id=options.user, states=states, page_size=1).total_size
    retried, more = 0, True
    while more and retried <= left:
        reply = client.retry_jobs(
            states=states,
            reasons=options.reasons,
            user_id=options.user,
            created_after=options.since,
            created_before=options.until,
        )
        retried += reply.retried
        more = reply.more
    if output.as_json:
        output.document({"retried": retried})
    elif retried:
        output.note(f"{retried} job{'s' if retried > 1 else ''} queued again")
    else:
        output.note("no matching jobs")
    return OK
