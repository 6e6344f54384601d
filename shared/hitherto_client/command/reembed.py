"""`hitherto reembed`: another embedding model, while reads go on."""

from __future__ import annotations

import argparse
import time
from typing import Any

import grpc

from hitherto.v1 import job_pb2
from hitherto.v1 import maintenance_service_pb2 as pb
from hitherto.v1.extraction_service_pb2 import GetJobRequest
from hitherto_client import Hitherto, HithertoCallError
from hitherto_client._sync.jobs import FINAL
from hitherto_client.command.jobs import exit_code, show_jobs
from hitherto_client.command.options import connect, wait
from hitherto_client.command.output import OK, Output
from hitherto_client.command.progress import Bar, if_stopped
from hitherto_client.command.rpc import Ask, Command, CommandGroup, Option, Rpc
from hitherto_client.command.show import Pair, show_record

_POLL_SECONDS = 0.5


def _model(name: str, dimensions: int) -> str:
    return f"{name} ({dimensions} dimensions)" if name else ""


_STATE: tuple[Pair, ...] = (
    ("reads use", lambda state: _model(state.active_model, state.active_dimensions)),
    ("being filled", lambda state: _model(state.target_model, state.target_dimensions)),
    ("embedded", lambda state: state.embedded_count if state.target_model else ""),
    ("waiting", lambda state: state.pending_count if state.target_model else ""),
)


def _show(output: Output, options: argparse.Namespace, reply: Any) -> None:
    show_record(output, _STATE, reply)
    if reply.HasField("job"):
        show_jobs(output, [reply.job])
    # Both are 0 in a reply whose texts could not be counted in time.
    if reply.target_model and reply.embedded_count and not reply.pending_count:
        output.note("everything is embedded: `hitherto reembed switch` lets reads use it")
    elif reply.job.state == job_pb2.JOB_STATE_DEAD:
        output.note("reads still use the old model")


def _phase(word: str, *options: Option, confirm: str | Ask = "") -> Rpc:
    return Rpc("Reembed", options, _show, confirm=confirm, fixed={"phase": word})


_START = _phase(
    "start",
    Option("model", "model"),
    Option("--dimensions", "dimensions", "size of its vectors (default: the model's own)"),
)
_STATUS = _phase("status")


def _switched(client: Hitherto, options: argparse.Namespace, output: Output) -> str:
    now = _STATUS.call(client, options)
    new = now.target_model or "the new model"
    return f"Let all reads use {new} instead of {now.active_model}?"


_SWITCH = _phase("switch", confirm=_switched)
_ROLLBACK = _phase("rollback", confirm="Let all reads use the old embedding model again?")


def _start(options: argparse.Namespace, output: Output) -> int:
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


COMMANDS = (
    CommandGroup(
        "reembed",
        "Move to another embedding model: start, status, switch, rollback.",
        Command(
            "start",
            "Begin to embed everything with another model in the background.",
            _START,
            wait(),
            run=_start,
        ),
        Command("status", "Show how far the change is.", _STATUS),
        Command("switch", "Let reads use the new model.", _SWITCH),
        Command("rollback", "Let reads use the old model again.", _ROLLBACK),
    ),
)
