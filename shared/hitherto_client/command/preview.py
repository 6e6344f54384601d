"""`hitherto preview`: what a conversation would teach, without teaching it."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from google.protobuf import json_format

from hitherto.v1 import entity_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_client.command.conversations import SUMMARY
from hitherto_client.command.exits import OK, UsageError
from hitherto_client.command.memories import MEMORIES
from hitherto_client.command.options import add_command, connect, natural
from hitherto_client.command.output import Output
from hitherto_client.command.show import show_record, show_rows
from hitherto_client.command.submit import add_defaults
from hitherto_client.command.values import dollars, word_of
from hitherto_client.errors import HithertoCallError, Violation
from hitherto_client.transcripts import Defaults, FileTranscript, read_transcripts

_ENTITY_TYPES = entity_pb2.EntityType.DESCRIPTOR


def register(commands: Any) -> None:
    """Add the sub-command."""
    parser = add_command(
        commands, "preview", "Show what would be learnt from a conversation; store nothing.", _run
    )
    parser.add_argument("file", metavar="FILE", help="as for submit; - reads standard input")
    add_defaults(parser)
    parser.add_argument(
        "--line", type=natural, metavar="N", help="line of the conversation, in a file with several"
    )


def _run(options: argparse.Namespace, output: Output) -> int:
    defaults = Defaults(options.user, options.conversation, options.time_zone)
    found = read_transcripts(options.file, defaults, stdin=sys.stdin.buffer)
    chosen = _choose(found, options.line)
    with connect(options) as client:
        try:
            request = pb.PreviewExtractionRequest(transcript=chosen.transcript)
            reply = client.connection.extraction.PreviewExtraction(request)
        except HithertoCallError as error:
            error.violations = tuple(
                Violation(
                    f"{chosen.source}, line {chosen.line}: "
                    + violation.field.removeprefix("transcript."),
                    violation.description,
                )
                for violation in error.violations
            )
            raise
    if output.as_json:
        output.document(reply)
    else:
        _show(output, reply)
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


def _show(output: Output, reply: pb.PreviewExtractionResponse) -> None:
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
