"""`hitherto submit` and `hitherto preview`: what is learnt, or would be, from files."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from google.protobuf import json_format

from hitherto.v1 import entity_pb2, job_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_client.batches import MAX_TRANSCRIPTS, batches
from hitherto_client.command.conversations import SUMMARY
from hitherto_client.command.jobs import exit_code, follow, show_jobs
from hitherto_client.command.learning import show_learnt
from hitherto_client.command.memories import MEMORIES
from hitherto_client.command.options import Argument, connect, natural, wait
from hitherto_client.command.output import OK, Output, UsageError
from hitherto_client.command.progress import if_stopped, tell_if_away
from hitherto_client.command.rpc import Command
from hitherto_client.command.show import dollars, show_record, show_rows, word_of
from hitherto_client.errors import HithertoCallError, Violation
from hitherto_client.transcripts import Defaults, FileTranscript, read_transcripts

_BATCH_SECONDS = 120.0
"""How long one batch may wait for room in a full queue, unless --timeout says otherwise."""

_IN_REQUEST = re.compile(r"(?:transcripts\[(\d+)\]|transcript(?=\.))\.?(.*)")


DEFAULTS = (
    Argument("--user", "the user, if the file does not name one", "ID", default=""),
    Argument("--conversation", "the conversation's id, if the file has none", "ID", default=""),
    Argument("--time-zone", "IANA time zone, if the file has none", "ZONE", default=""),
)
"""What stands for the values that a file of conversations lacks."""


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
    reply = pb.SubmitTranscriptsResponse()
    with connect(options) as client, if_stopped(output, lambda: _left(len(jobs))):
        tell_if_away(client, output)
        for group in groups:
            request = pb.SubmitTranscriptsRequest(transcripts=[item.transcript for item in group])
            with _at_source(group):
                submit = client.connection.extraction.SubmitTranscripts
                reply = submit(request, timeout=options.timeout or _BATCH_SECONDS)
            jobs |= {job.id: job for job in reply.jobs}
            if len(groups) > 1:
                output.note(f"accepted: {len(jobs)} jobs so far")
        shown = list(jobs.values())
        if options.wait:
            shown = follow(client, shown, output)
        document = pb.SubmitTranscriptsResponse(
            jobs=shown, consistency_token=reply.consistency_token
        )
        if options.wait:
            output.result(document, lambda: show_learnt(client, output, shown))
            return exit_code(shown)
    output.result(document, lambda: show_jobs(output, shown))
    return OK


def _left(jobs: int) -> str:
    if not jobs:
        return ""
    return (
        f"{jobs} accepted jobs continue to run: see `hitherto jobs`; submitting the same files "
        "again is harmless"
    )


@contextmanager
def _at_source(group: list[FileTranscript]) -> Iterator[None]:
    """Around a call whose violations name file and line in place of the number in the request."""
    try:
        yield
    except HithertoCallError as error:
        error.violations = tuple(_placed(violation, group) for violation in error.violations)
        raise


def _placed(violation: Violation, group: list[FileTranscript]) -> Violation:
    match = _IN_REQUEST.fullmatch(violation.field)
    if match is None or int(match[1] or 0) >= len(group):
        return violation
    item = group[int(match[1] or 0)]
    return Violation(f"{item.source}, line {item.line}: {match[2]}", violation.description)


_ENTITY_TYPES = entity_pb2.EntityType.DESCRIPTOR


def _preview(options: argparse.Namespace, output: Output) -> int:
    defaults = Defaults(options.user, options.conversation, options.time_zone)
    found = read_transcripts(options.file, defaults, stdin=sys.stdin.buffer)
    chosen = _choose(found, options.line)
    with connect(options) as client, _at_source([chosen]):
        request = pb.PreviewExtractionRequest(transcript=chosen.transcript)
        reply = client.connection.extraction.PreviewExtraction(request)
    output.result(reply, lambda: _show_preview(output, reply))
    return OK


def _choose(found: list[FileTranscript], line: int | None) -> FileTranscript:
    if line is None:
        if len(found) > 1:
            raise UsageError(
                f"{found[0].source} holds {len(found)} conversations and each costs a call of the "
                "model: choose one with --line N"
            )
        return found[0]
    for transcript in found:
        if transcript.line == line:
            return transcript
    raise UsageError(f"no conversation begins on line {line} of {found[0].source}")


def _show_preview(output: Output, reply: pb.PreviewExtractionResponse) -> None:
    groups = (
        ("new", reply.memories_created),
        ("changed", reply.memories_updated),
        ("no longer true", reply.memories_contradicted),
        ("goals reached", reply.goals_achieved),
    )
    for title, memories in groups:
        if memories:
            output.line(f"{title}:")
            show_rows(output, MEMORIES, memories)
    if not any(memories for _, memories in groups):
        output.line("no memory would change")
    if reply.HasField("profile"):
        told = json_format.MessageToJson(
            reply.profile, preserving_proto_field_name=True, ensure_ascii=False
        )
        output.pairs([("profile", told)])
    if reply.HasField("summary"):
        show_record(output, SUMMARY, reply.summary)
    output.pairs(
        [
            (
                "entities",
                ", ".join(
                    f"{found.name} ({word_of(_ENTITY_TYPES, found.type)})"
                    for found in reply.entities
                ),
            )
        ]
    )
    result = reply.result
    tokens = result.usage.input_tokens + result.usage.output_tokens + result.usage.embedding_tokens
    output.note(
        f"nothing was stored; {result.model or result.extractor or 'the model'} read and wrote "
        f"{tokens} tokens for {dollars(result.usage.cost_usd)}, and {result.dropped_items} items "
        "of its answer were left out"
    )


COMMANDS = (
    Command(
        "submit",
        "Submit conversations and learn from them.",
        Argument(
            "files",
            "JSON lines of transcripts, or plain `user: …` text; - reads standard input",
            "FILE",
            nargs="+",
        ),
        *DEFAULTS,
        Argument(
            "--batch",
            f"transcripts per request, at most {MAX_TRANSCRIPTS}",
            "N",
            type=natural,
            default=MAX_TRANSCRIPTS,
        ),
        wait("only submit"),
        run=_run,
    ),
)
PREVIEW = (
    Command(
        "preview",
        "Show what would be learnt from a conversation; store nothing.",
        Argument("file", "as for submit; - reads standard input", "FILE"),
        *DEFAULTS,
        Argument("--line", "line of the conversation, in a file with several", "N", type=natural),
        run=_preview,
    ),
)
