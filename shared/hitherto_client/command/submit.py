"""`hitherto submit`: conversations from files, in batches, and what was learnt from them."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from hitherto.v1 import extraction_service_pb2, job_pb2
from hitherto_client import Hitherto
from hitherto_client.batches import MAX_TRANSCRIPTS, batches
from hitherto_client.command.exits import OK
from hitherto_client.command.follow import follow
from hitherto_client.command.job_table import exit_code, show_jobs
from hitherto_client.command.options import add_command, add_wait, connect, natural
from hitherto_client.command.output import Output
from hitherto_client.errors import HithertoCallError, Violation
from hitherto_client.transcripts import Defaults, FileTranscript, read_transcripts

_BATCH_SECONDS = 120.0
"""How long one batch may wait for room in a full queue, unless --timeout says otherwise."""

_INDEXED = re.compile(r"transcripts\[(\d+)\]\.?(.*)")


def register(commands: Any) -> None:
    """Add the sub-command."""
    parser = add_command(commands, "submit", "Submit conversations and learn from them.", _run)
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="JSON lines of transcripts, or plain `user: …` text; - reads standard input",
    )
    add_defaults(parser)
    parser.add_argument(
        "--batch",
        type=natural,
        default=MAX_TRANSCRIPTS,
        metavar="N",
        help=f"transcripts per request, at most {MAX_TRANSCRIPTS}",
    )
    add_wait(parser, otherwise="only submit")


def add_defaults(parser: argparse.ArgumentParser) -> None:
    """What stands for the values that a file of conversations lacks."""
    parser.add_argument("--user", default="", help="the user, if the file does not name one")
    parser.add_argument(
        "--conversation", default="", help="the conversation's id, if the file has none"
    )
    parser.add_argument(
        "--time-zone", default="", metavar="ZONE", help="IANA time zone, if the file has none"
    )


def _run(options: argparse.Namespace, output: Output) -> int:
    defaults = Defaults(options.user, options.conversation, options.time_zone)
    # Everything is read before anything is sent: a mistake in the last file costs nothing.
    found = [
        transcript
        for name in options.files
        for transcript in read_transcripts(name, defaults, stdin=sys.stdin.buffer)
    ]
    groups = list(batches(found, min(options.batch, MAX_TRANSCRIPTS)))
    jobs: dict[str, job_pb2.Job] = {}
    reply = extraction_service_pb2.SubmitTranscriptsResponse()
    with connect(options) as client:
        try:
            for group in groups:
                reply = _hand_over(client, group, options.timeout or _BATCH_SECONDS)
                for job in reply.jobs:
                    jobs[job.id] = job
                if len(groups) > 1:
                    output.note(f"accepted: {len(jobs)} jobs so far")
            if not options.wait:
                _show(output, list(jobs.values()), reply.consistency_token)
                return OK
            final = follow(client, jobs.values(), output)
        except (KeyboardInterrupt, HithertoCallError):
            if jobs:
                output.note(
                    f"{len(jobs)} accepted jobs continue to run: see `hitherto jobs`; "
                    "submitting the same files again is harmless"
                )
            raise
    _show(output, final, reply.consistency_token)
    return exit_code(final)


def _show(output: Output, jobs: list[job_pb2.Job], consistency_token: str) -> None:
    if output.as_json:
        output.document(
            extraction_service_pb2.SubmitTranscriptsResponse(
                jobs=jobs, consistency_token=consistency_token
            )
        )
    else:
        show_jobs(output, jobs)


def _hand_over(
    client: Hitherto, group: list[FileTranscript], timeout: float
) -> extraction_service_pb2.SubmitTranscriptsResponse:
    try:
        request = extraction_service_pb2.SubmitTranscriptsRequest(
            transcripts=[item.transcript for item in group]
        )
        return client.connection.extraction.SubmitTranscripts(request, timeout=timeout)
    except HithertoCallError as error:
        error.violations = tuple(_at_source(violation, group) for violation in error.violations)
        raise


def _at_source(violation: Violation, group: list[FileTranscript]) -> Violation:
    """The violation with the file and line in place of the number within the request."""
    match = _INDEXED.fullmatch(violation.field)
    if match is None or int(match[1]) >= len(group):
        return violation
    item = group[int(match[1])]
    return Violation(f"{item.source}, line {item.line}: {match[2]}", violation.description)
