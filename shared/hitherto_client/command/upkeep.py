"""`hitherto consolidate`, `undo`, `decay`, `retention`, `schedules`, `rollback`, `usage`."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from hitherto.v1 import job_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_client import Hitherto
from hitherto_client._sync.jobs import FINAL
from hitherto_client.command.jobs import exit_code, follow, show_jobs
from hitherto_client.command.memories import MEMORIES
from hitherto_client.command.options import Argument, OneOf, connect, wait
from hitherto_client.command.output import FAILED, OK, Output
from hitherto_client.command.progress import if_stopped
from hitherto_client.command.rpc import DRY_RUN, EVERYBODY, SINCE, UNTIL, USER, Command, Option, Rpc
from hitherto_client.command.show import Column, Rows, counted, dollars, minute, show_rows, words


def _show_started(output: Output, options: argparse.Namespace, reply: Any) -> None:
    if options.dry_run:
        output.line(f"would change: {counted(reply.counts) or 'nothing'}")
        output.note("nothing was changed")
    else:
        show_jobs(output, [reply.job])


_CONSOLIDATE = Rpc(
    "Consolidate",
    (Option("--tag", "tag", "only this tag (default: all)"), EVERYBODY, DRY_RUN),
    _show_started,
)
_DECAY = Rpc("RunDecay", (EVERYBODY, DRY_RUN), _show_started)


def _due(client: Hitherto, options: argparse.Namespace, output: Output) -> str:
    if options.dry_run:
        return ""
    due = _RETENTION.call(client, options, dry_run=True)
    whose = f"of {options.user_id}" if options.user_id else "of all users"
    output.note(f"due for removal {whose}: {counted(due.counts) or 'nothing'}")
    return "Remove it for good?"


_RETENTION = Rpc("RunRetention", (EVERYBODY, DRY_RUN), _show_started, confirm=_due)


def _show_originals(output: Output, options: argparse.Namespace, reply: Any) -> None:
    show_rows(output, MEMORIES, reply.memories)
    output.note(f"{len(reply.memories)} memories are back")


_UNDO = Rpc(
    "UndoConsolidation",
    (USER, Option("id", "memory_id", "the memory that consolidation made")),
    _show_originals,
)
_SCHEDULES = Rpc(
    "ListSchedules",
    (),
    Rows(
        "schedules",
        (
            Column("what", "name"),
            Column("cron (UTC)", "cron"),
            Column("last run", lambda schedule: minute(schedule.last_run_at) or "never"),
            Column("next run", "next_run_at"),
            Column("last job", "last_job_id", whole=True),
        ),
        "nothing is scheduled: see the variables HITHERTO_SCHEDULE_…",
    ),
)


def _show_undone(output: Output, options: argparse.Namespace, reply: Any) -> None:
    said = "would undo" if options.dry_run else "undone"
    output.line(f"{said}: {counted(reply.counts) or 'nothing'}")
    if options.dry_run:
        output.note("nothing was changed")


def _would_undo(client: Hitherto, options: argparse.Namespace, output: Output) -> str:
    if options.dry_run:
        return ""
    would = _ROLLBACK.call(client, options, dry_run=True)
    output.note(f"would undo: {counted(would.counts) or 'nothing'}")
    return "Undo it?"


_ROLLBACK = Rpc("RollbackSource", (USER, DRY_RUN), _show_undone, confirm=_would_undo)


def _start(rpc: Rpc, options: argparse.Namespace, output: Output) -> int:
    """Start upkeep, follow its job unless asked not to, and tell what it did or would do."""
    with connect(options) as client:
        if not rpc.agreed(client, options, output):
            return FAILED
        reply = rpc.call(client, options)
        wait = options.wait and not options.dry_run
        if wait and reply.job.state not in FINAL:
            with if_stopped(output, lambda: "the job continues: see `hitherto jobs`"):
                (job,) = follow(client, [reply.job], output)
            reply.job.CopyFrom(job)
    rpc.write(output, options, reply)
    failed = reply.job.state in (job_pb2.JOB_STATE_DEAD, job_pb2.JOB_STATE_CANCELLED)
    return exit_code([reply.job]) if failed or wait else OK


_DIMENSIONS = pb.UsageDimension.DESCRIPTOR
_COUNTS = {
    "calls": "llm_calls",
    "tokens in": "input_tokens",
    "tokens out": "output_tokens",
    "embedding calls": "embedding_calls",
    "tokens embedded": "embedding_tokens",
}
_FIGURES = (*_COUNTS, "cost")


def _show_usage(output: Output, options: argparse.Namespace, reply: Any) -> None:
    by = options.group_by
    rows = [
        (*(getattr(row, _field(word)) or "(none)" for word in by), *_figures(row.usage))
        for row in reply.rows
    ]
    if by:
        rows.append(("total", *[""] * (len(by) - 1), *_figures(reply.total)))
    else:
        rows = [_figures(reply.total)]
    output.table((*by, *_FIGURES), rows, numbers=_FIGURES)
    output.more(len(reply.rows), None, reply.next_page_token)
    budget = f" of {dollars(reply.daily_budget_usd)}" if reply.daily_budget_usd else ", no budget"
    output.note(f"spent today (UTC): {dollars(reply.spent_today_usd)}{budget}")


_USAGE = Rpc(
    "GetUsage",
    (
        EVERYBODY,
        Option("--kind", "kinds", "only jobs of this kind", "KIND"),
        Option("--since", "since", SINCE),
        Option("--until", "until", UNTIL),
    ),
    _show_usage,
)


def _dimensions(text: str) -> list[str]:
    found = [word.strip().lower() for word in text.split(",")]
    known = words(_DIMENSIONS)
    if not set(found) <= set(known):
        raise argparse.ArgumentTypeError(f"{text!r} should be some of {','.join(known)}")
    return list(dict.fromkeys(found))


def _field(word: str) -> str:
    return "user_id" if word == "user" else word


def _figures(usage: job_pb2.Usage) -> tuple[str, ...]:
    return (*(str(getattr(usage, name)) for name in _COUNTS.values()), dollars(usage.cost_usd))


USAGE = (
    Command(
        "usage",
        "Show calls, tokens and cost.",
        _USAGE,
        Argument(
            "--by",
            "group by these (default: one row in all)",
            ",".join(words(_DIMENSIONS)),
            dest="group_by",
            type=_dimensions,
            default=[],
        ),
    ),
)
COMMANDS = (
    Command(
        "consolidate",
        "Merge memories that share a tag.",
        _CONSOLIDATE,
        wait(),
        run=partial(_start, _CONSOLIDATE),
    ),
    Command("undo", "Undo a consolidation: its originals come back.", _UNDO),
    Command(
        "decay",
        "Archive unimportant and unused memories.",
        _DECAY,
        wait(),
        run=partial(_start, _DECAY),
    ),
    Command(
        "retention",
        "Remove data that is past its retention, for good.",
        _RETENTION,
        wait(),
        run=partial(_start, _RETENTION),
    ),
    Command("schedules", "List the upkeep schedules.", _SCHEDULES),
    Command(
        "rollback",
        "Undo everything learnt from one conversation, document or job, or taught by a model.",
        _ROLLBACK,
        OneOf(
            Option("--conversation", "conversation_id", metavar="ID"),
            Option("--document", "document_id", metavar="ID"),
            Option("--job", "job_id", metavar="ID"),
            Option("--model", "model", metavar="NAME"),
            Option("--prompt-version", "prompt_version", metavar="VERSION"),
        ),
        Option("--since", "since", "only what models taught at this time or later"),
        Option("--until", "until", "only what models taught before this time"),
    ),
)
