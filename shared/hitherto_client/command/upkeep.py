"""`hitherto consolidate`, `undo`, `decay`, `retention`, `rollback`, `reembed`, `usage`."""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import grpc

from hitherto.v1 import job_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto.v1.extraction_service_pb2 import GetJobRequest
from hitherto_client import Hitherto, HithertoCallError
from hitherto_client._sync.jobs import FINAL
from hitherto_client.command.jobs import exit_code, follow, show_jobs
from hitherto_client.command.memories import MEMORIES
from hitherto_client.command.options import Argument, OneOf, connect, wait
from hitherto_client.command.output import FAILED, OK, Output
from hitherto_client.command.progress import Bar, if_stopped
from hitherto_client.command.rpc import (
    DRY_RUN,
    EVERYBODY,
    SINCE,
    UNTIL,
    USER,
    Ask,
    Command,
    CommandGroup,
    Option,
    Rpc,
)
from hitherto_client.command.show import (
    Column,
    Pair,
    Rows,
    counted,
    dollars,
    minute,
    show_record,
    show_rows,
    words,
)


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
            Option("--conversation", "conversation_id", "what this conversation taught", "ID"),
            Option("--document", "document_id", "what this document taught", "ID"),
            Option("--job", "job_id", "what this job learnt", "ID"),
            Option("--model", "model", "what this language model taught", "NAME"),
            Option(
                "--prompt-version", "prompt_version", "what this prompt version taught", "VERSION"
            ),
        ),
        Option("--since", "since", "only what models taught at this time or later"),
        Option("--until", "until", "only what models taught before this time"),
    ),
)


_POLL_SECONDS = 0.5


def _model(name: str, dimensions: int) -> str:
    return f"{name} ({dimensions} dimensions)" if name else ""


_STATE: tuple[Pair, ...] = (
    ("reads use", lambda state: _model(state.active_model, state.active_dimensions)),
    ("being filled", lambda state: _model(state.target_model, state.target_dimensions)),
    ("embedded", lambda state: state.embedded_count if state.target_model else ""),
    ("waiting", lambda state: state.pending_count if state.target_model else ""),
)


def _show_reembedding(output: Output, options: argparse.Namespace, reply: Any) -> None:
    show_record(output, _STATE, reply)
    if reply.HasField("job"):
        show_jobs(output, [reply.job])
    # Both are 0 in a reply whose texts could not be counted in time.
    if reply.target_model and reply.embedded_count and not reply.pending_count:
        output.note("everything is embedded: `hitherto reembed switch` lets reads use it")
    elif reply.job.state == job_pb2.JOB_STATE_DEAD:
        output.note("reads still use the old model")


def _phase(word: str, *options: Option, confirm: str | Ask = "") -> Rpc:
    return Rpc("Reembed", options, _show_reembedding, confirm=confirm, fixed={"phase": word})


_START = _phase(
    "start",
    Option("model", "model", "the name of the new embedding model"),
    Option("--dimensions", "dimensions", "size of its vectors (default: the model's own)"),
)
_STATUS = _phase("status")


def _switched(client: Hitherto, options: argparse.Namespace, output: Output) -> str:
    now = _STATUS.call(client, options)
    new = now.target_model or "the new model"
    return f"Let all reads use {new} instead of {now.active_model}?"


_SWITCH = _phase("switch", confirm=_switched)
_REEMBED_ROLLBACK = _phase("rollback", confirm="Let all reads use the old embedding model again?")


def _start_reembedding(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = _START.call(client, options)
        if options.wait and reply.HasField("job"):
            with if_stopped(output, lambda: "the work continues: see `hitherto reembed status`"):
                reply = _follow(client, options, reply, output)
    _START.write(output, options, reply)
    return exit_code([reply.job]) if options.wait and reply.HasField("job") else OK


def _follow(
    client: Hitherto, options: argparse.Namespace, reply: pb.ReembedResponse, output: Output
) -> pb.ReembedResponse:
    """Report until the job has ended; the standing by then, with the job."""
    job = reply.job
    with Bar(output) as bar:
        while True:
            total = reply.embedded_count + reply.pending_count
            share = reply.embedded_count / total if total else 0.0
            ended = job.state in FINAL
            text = f"{reply.embedded_count} of {total} texts embedded" if total else "embedding"
            bar.show(1.0 if ended else share, text)
            if ended:
                reply.job.CopyFrom(job)
                return reply
            time.sleep(_POLL_SECONDS)
            job = client.connection.extraction.GetJob(GetJobRequest(job_id=job.id)).job
            try:
                reply = _STATUS.call(client, options, model="", dimensions=0)
            except HithertoCallError as error:
                # The texts of a large installation may take too long to count.
                if error.code is not grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise


REEMBED = (
    CommandGroup(
        "reembed",
        "Move to another embedding model: start, status, switch, rollback.",
        Command(
            "start",
            "Begin to embed everything with another model in the background.",
            _START,
            wait(),
            run=_start_reembedding,
        ),
        Command("status", "Show how far the change is.", _STATUS),
        Command("switch", "Let reads use the new model.", _SWITCH),
        Command("rollback", "Let reads use the old model again.", _REEMBED_ROLLBACK),
    ),
)
