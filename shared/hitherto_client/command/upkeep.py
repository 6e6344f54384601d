"""`hitherto consolidate`, `undo`, `decay`, `retention` and `schedules`: upkeep by hand."""

from __future__ import annotations

import argparse
from typing import Any

from hitherto.v1 import job_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_client._sync.watch import FINAL
from hitherto_client.client import HithertoClient
from hitherto_client.command.confirm import add_yes, confirmed
from hitherto_client.command.exits import FAILED, OK
from hitherto_client.command.follow import follow
from hitherto_client.command.job_table import exit_code, show_jobs
from hitherto_client.command.memory_view import show_memories
from hitherto_client.command.options import (
    add_command,
    add_everybody,
    add_paging,
    add_user,
    add_wait,
    connect,
    read_pages,
)
from hitherto_client.command.output import Output
from hitherto_client.command.values import counted, minute

_Started = pb.ConsolidateResponse | pb.RunDecayResponse | pb.RunRetentionResponse


def register(commands: Any) -> None:
    """Add the sub-commands."""
    consolidate = add_command(
        commands, "consolidate", "Merge memories that share a tag.", _consolidate
    )
    consolidate.add_argument("--tag", default="", help="only this tag (default: all)")
    undo = add_command(commands, "undo", "Undo a consolidation: its originals come back.", _undo)
    add_user(undo)
    undo.add_argument("id", metavar="ID", help="the memory that consolidation made")
    decay = add_command(commands, "decay", "Archive unimportant and unused memories.", _decay)
    retention = add_command(
        commands, "retention", "Remove data that is past its retention, for good.", _retention
    )
    for parser in (consolidate, decay, retention):
        add_everybody(parser)
        parser.add_argument("--dry-run", action="store_true", help="only count; change nothing")
        add_wait(parser)
    add_yes(retention)
    schedules = add_command(commands, "schedules", "List the upkeep schedules.", _schedules)
    add_paging(schedules)


def _consolidate(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.consolidate(user_id=options.user, tag=options.tag, dry_run=options.dry_run)
        return _finish(client, reply, options, output)


def _decay(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.run_decay(user_id=options.user, dry_run=options.dry_run)
        return _finish(client, reply, options, output)


def _retention(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        if not options.dry_run and not options.yes:
            due = client.run_retention(user_id=options.user, dry_run=True)
            whose = f"of {options.user}" if options.user else "of all users"
            output.note(f"due for removal {whose}: {counted(due.counts) or 'nothing'}")
            if not confirmed(options, output, "Remove it for good?"):
                return FAILED
        reply = client.run_retention(user_id=options.user, dry_run=options.dry_run)
        return _finish(client, reply, options, output)


def _finish(
    client: HithertoClient, reply: _Started, options: argparse.Namespace, output: Output
) -> int:
    """Follow the job, unless asked not to, and tell what it did or would do."""
    if options.wait and not options.dry_run and reply.job.state not in FINAL:
        try:
            (job,) = follow(client, [reply.job], output)
        except KeyboardInterrupt:
            output.note("the job continues: see `hitherto jobs`")
            raise
        reply.job.CopyFrom(job)
    if output.as_json:
        output.document(reply)
    elif options.dry_run:
        output.line(f"would change: {counted(reply.counts) or 'nothing'}")
        output.note("nothing was changed")
    else:
        show_jobs(output, [reply.job])
    failed = reply.job.state in (job_pb2.JOB_STATE_DEAD, job_pb2.JOB_STATE_CANCELLED)
    return exit_code([reply.job]) if failed or (options.wait and not options.dry_run) else OK


def _undo(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.undo_consolidation(options.user, options.id)
    if output.as_json:
        output.document(reply)
    else:
        show_memories(output, reply.memories)
        output.note(f"{len(reply.memories)} memories are back")
    return OK


def _schedules(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = read_pages(
            options,
            "schedules",
            lambda size, token: client.list_schedules(page_size=size, page_token=token),
        )
    if output.as_json:
        output.document(reply)
        return OK
    if not reply.schedules:
        output.note("nothing is scheduled: see the variables HITHERTO_SCHEDULE_…")
        return OK
    output.table(
        ("what", "cron (UTC)", "last run", "next run", "last job"),
        [
            (
                found.name,
                found.cron,
                minute(found.last_run_at) or "never",
                minute(found.next_run_at),
                found.last_job_id,
            )
            for found in reply.schedules
        ],
        whole=("last job",),
    )
    output.more(len(reply.schedules), None, reply.next_page_token)
    return OK
