"""`hitherto reembed`: another embedding model, while reads go on."""

from __future__ import annotations

import argparse
import time
from typing import Any

from hitherto.v1 import job_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto_client._sync.watch import FINAL
from hitherto_client.client import HithertoClient
from hitherto_client.command.confirm import add_yes, confirmed
from hitherto_client.command.exits import FAILED, OK
from hitherto_client.command.job_table import exit_code, show_jobs
from hitherto_client.command.options import (
    add_command,
    add_group,
    add_wait,
    connect,
    natural,
)
from hitherto_client.command.output import Output
from hitherto_client.command.progress import Bar

_POLL_SECONDS = 0.5


def register(commands: Any) -> None:
    """Add the sub-command and its own."""
    actions = add_group(
        commands, "reembed", "Move to another embedding model: start, status, switch, rollback."
    )
    start = add_command(
        actions, "start", "Begin to embed everything with another model in the background.", _start
    )
    start.add_argument("model", metavar="MODEL")
    start.add_argument(
        "--dimensions",
        type=natural,
        default=0,
        metavar="N",
        help="size of its vectors (default: the model's own)",
    )
    add_wait(start)
    add_command(actions, "status", "Show how far the change is.", _status)
    switch = add_command(actions, "switch", "Let reads use the new model.", _switch)
    rollback = add_command(actions, "rollback", "Let reads use the old model again.", _rollback)
    for action in (switch, rollback):
        add_yes(action)


def _start(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.reembed(
            pb.REEMBED_PHASE_START, model=options.model, dimensions=options.dimensions
        )
        if options.wait and reply.HasField("job"):
            try:
                reply = _follow(client, reply, output)
            except KeyboardInterrupt:
                output.note("the work continues: see `hitherto reembed status`")
                raise
    _tell(output, reply)
    if not options.wait or not reply.HasField("job"):
        return OK
    return exit_code([reply.job])


def _follow(
    client: HithertoClient, reply: pb.ReembedResponse, output: Output
) -> pb.ReembedResponse:
    """Report until the job has ended; the standing by then, with the job."""
    job = reply.job
    with Bar(output) as bar:
        while True:
            total = reply.embedded_count + reply.pending_count
            share = reply.embedded_count / total if total else 0.0
            ended = job.state in FINAL
            bar.show(
                share if not ended else 1.0, f"{reply.embedded_count} of {total} texts embedded"
            )
            if ended:
                reply.job.CopyFrom(job)
                return reply
            time.sleep(_POLL_SECONDS)
            job = client.get_job(job.id)
            reply = client.reembed(pb.REEMBED_PHASE_STATUS)


def _status(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.reembed(pb.REEMBED_PHASE_STATUS)
    _tell(output, reply)
    return OK


def _switch(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        if not options.yes:
            now = client.reembed(pb.REEMBED_PHASE_STATUS)
            question = (
                f"Let all reads use {now.target_model or 'the new model'} instead of "
                f"{now.active_model}?"
            )
            if not confirmed(options, output, question):
                return FAILED
        reply = client.reembed(pb.REEMBED_PHASE_SWITCH)
    _tell(output, reply)
    return OK


def _rollback(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        if not confirmed(options, output, "Let all reads use the old embedding model again?"):
            return FAILED
        reply = client.reembed(pb.REEMBED_PHASE_ROLLBACK)
    _tell(output, reply)
    return OK


def _tell(output: Output, reply: pb.ReembedResponse) -> None:
    if output.as_json:
        output.document(reply)
        return
    output.pairs(
        [
            ("reads use", _model(reply.active_model, reply.active_dimensions)),
            ("being filled", _model(reply.target_model, reply.target_dimensions)),
            ("embedded", reply.embedded_count if reply.target_model else ""),
            ("waiting", reply.pending_count if reply.target_model else ""),
        ]
    )
    if reply.HasField("job"):
        show_jobs(output, [reply.job])
    if reply.target_model and not reply.pending_count:
        output.note("everything is embedded: `hitherto reembed switch` lets reads use it")
    elif reply.job.state == job_pb2.JOB_STATE_DEAD:
        output.note("reads still use the old model")


def _model(name: str, dimensions: int) -> str:
    return f"{name} ({dimensions} dimensions)" if name else ""
