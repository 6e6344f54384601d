"""`hitherto feedback`: what the user made of an answer."""

from __future__ import annotations

import argparse
from typing import Any

from google.protobuf import json_format

from hitherto_client.command.exits import OK, UsageError
from hitherto_client.command.options import connect, read_text
from hitherto_client.command.output import Output
from hitherto_client.command.rpc import USER, Option, Rpc, declare
from hitherto_client.command.show import Column, show_rows

_PREFERENCES = (
    Column("preference", lambda found: f"{found.type} / {found.key}"),
    Column("value", lambda found: json_format.MessageToDict(found.value)),
    Column("confidence", lambda found: f"{found.confidence:.1f}", number=True),
    Column("observations", "observations", number=True),
)


def _show(output: Output, options: argparse.Namespace, reply: Any) -> None:
    if reply.preferences:
        show_rows(output, _PREFERENCES, reply.preferences)
    output.note(
        f"{len(reply.preferences)} preferences and {len(reply.memory_ids)} memories became "
        "stronger or weaker"
    )
    for memory_id in reply.memory_ids:
        output.line(memory_id)


_FEEDBACK = Rpc(
    "RecordFeedback",
    (
        USER,
        Option("conversation", "conversation_id"),
        Option("message", "message_id", "id of the assistant's message"),
    ),
    _show,
)


def register(commands: Any) -> None:
    """Add the sub-command."""
    parser = declare(
        commands, "feedback", "Rate an answer, or record how the user edited it.", _FEEDBACK, _run
    )
    parser.add_argument(
        "--rating", type=int, choices=range(1, 6), metavar="1..5", help="1 is bad, 5 is good"
    )
    parser.add_argument("--original", metavar="FILE", help="the answer as the assistant gave it")
    parser.add_argument("--edited", metavar="FILE", help="the answer as the user left it")


def _run(options: argparse.Namespace, output: Output) -> int:
    files = (options.original, options.edited)
    if (options.rating is None) != all(files) or (options.rating is not None and any(files)):
        raise UsageError("give either --rating, or --original and --edited together")
    more: dict[str, Any] = {}
    if options.rating is None:
        more["edit"] = {"original": read_text(files[0]), "edited": read_text(files[1])}
    with connect(options) as client:
        reply = _FEEDBACK.call(client, options, **more)
    _FEEDBACK.write(output, options, reply)
    return OK
