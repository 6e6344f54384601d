"""`hitherto feedback`: what the user made of an answer."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from hitherto.v1 import memory_service_pb2
from hitherto_client.command.exits import OK, UsageError
from hitherto_client.command.options import add_command, add_user, connect
from hitherto_client.command.output import Output


def register(commands: Any) -> None:
    """Add the sub-command."""
    parser = add_command(
        commands, "feedback", "Rate an answer, or record how the user edited it.", _run
    )
    add_user(parser)
    parser.add_argument("conversation", metavar="CONVERSATION")
    parser.add_argument("message", metavar="MESSAGE", help="id of the assistant's message")
    parser.add_argument(
        "--rating", type=int, choices=range(1, 6), metavar="1..5", help="1 is bad, 5 is good"
    )
    parser.add_argument("--original", metavar="FILE", help="the answer as the assistant gave it")
    parser.add_argument("--edited", metavar="FILE", help="the answer as the user left it")


def _run(options: argparse.Namespace, output: Output) -> int:
    feedback = _feedback(options)
    with connect(options) as client:
        reply = client.record_feedback(
            options.user, options.conversation, options.message, feedback
        )
    if output.as_json:
        output.document(reply)
        return OK
    if reply.preferences:
        output.table(
            ("preference", "value", "confidence", "observations"),
            [
                (
                    f"{found.type} / {found.key}",
                    json_format.MessageToDict(found.value),
                    f"{found.confidence:.1f}",
                    found.observations,
                )
                for found in reply.preferences
            ],
            numbers=("confidence", "observations"),
        )
    output.note(
        f"{len(reply.preferences)} preferences and {len(reply.memory_ids)} memories became "
        "stronger or weaker"
    )
    for memory_id in reply.memory_ids:
        output.line(memory_id)
    return OK


def _feedback(options: argparse.Namespace) -> int | memory_service_pb2.ResponseEdit:
    rating: int | None = options.rating
    files = (options.original, options.edited)
    if rating is not None and not any(files):
        return rating
    if rating is None and all(files):
        original, edited = (_read(name) for name in files)
        return memory_service_pb2.ResponseEdit(original=original, edited=edited)
    raise UsageError("give either --rating, or --original and --edited together")


def _read(name: str) -> str:
    try:
        return Path(name).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"{name} cannot be read ({why})") from None
