"""`hitherto context`: what an assistant would be told."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hitherto.v1 import retrieval_service_pb2, search_pb2
from hitherto_client.command.exits import OK, UsageError
from hitherto_client.command.filters import add_consistency, add_time_travel, moment_fields
from hitherto_client.command.legs_view import show_legs, warn
from hitherto_client.command.memory_view import nothing
from hitherto_client.command.options import (
    add_command,
    add_enum,
    add_user,
    connect,
    moment,
    numbers,
    whole,
    words,
)
from hitherto_client.command.output import Output

_TEMPLATES = search_pb2.PromptTemplate.DESCRIPTOR
_SCOPES = search_pb2.SearchScope.DESCRIPTOR
_ORDERS = search_pb2.MemoryOrder.DESCRIPTOR


def register(commands: Any) -> None:
    """Add the sub-command."""
    context = add_command(
        commands, "context", "Print the context block for an assistant's prompt.", _context
    )
    add_user(context)
    context.add_argument("query", metavar="QUERY", nargs="?", default="")
    context.add_argument("--template", choices=words(_TEMPLATES), type=str.lower)
    context.add_argument("--custom-template", metavar="FILE", help="a template of your own")
    context.add_argument("--max-tokens", type=whole, metavar="N", help="token budget of the block")
    context.add_argument(
        "--conversation", default="", metavar="ID", help="the current conversation"
    )
    add_enum(context, "--scope", _SCOPES, "scopes", "what the query searches")
    for name, what in (
        ("memories", "most important memories"),
        ("relevant", "results for the query"),
        ("conversations", "past conversations"),
        ("entities", "known entities"),
    ):
        context.add_argument(
            f"--max-{name}", type=whole, metavar="N", help=f"{what}; 0 leaves them out"
        )
    context.add_argument(
        "--order",
        choices=words(_ORDERS),
        type=str.lower,
        help="order of the most important memories",
    )
    context.add_argument(
        "--provenance", action="store_true", help="show origin, date and id of every memory"
    )
    context.add_argument(
        "--dates",
        action=argparse.BooleanOptionalAction,
        help="whether lines have dates (default: with a query)",
    )
    context.add_argument(
        "--reference-time",
        type=moment,
        metavar="TIME",
        help="the time that `last week` is relative to",
    )
    add_time_travel(context)
    add_consistency(context)


def _context(options: argparse.Namespace, output: Output) -> int:
    request = retrieval_service_pb2.GetContextRequest(
        user_id=options.user,
        query=options.query,
        conversation_id=options.conversation,
        scopes=numbers(_SCOPES, options.scopes),
        include_provenance=options.provenance,
        line_dates=options.dates,
        max_tokens=options.max_tokens,
        max_memories=options.max_memories,
        max_relevant=options.max_relevant,
        max_conversations=options.max_conversations,
        max_entities=options.max_entities,
        reference_time=options.reference_time,
        custom_template=_custom_template(options),
        **moment_fields(options),
    )
    if options.template:
        request.template = numbers(_TEMPLATES, [options.template])[0]
    elif options.custom_template:
        request.template = search_pb2.PROMPT_TEMPLATE_CUSTOM
    if options.order:
        request.memory_order = numbers(_ORDERS, [options.order])[0]
    with connect(options) as client:
        reply = client.retrieval.GetContext(request)
    if output.as_json:
        output.document(reply)
        return OK
    if reply.prompt_block:
        output.text(reply.prompt_block)
    else:
        output.note(nothing(f"nothing is known about {options.user} yet", reply.reason))
    if reply.previous_items:
        output.note(
            f"the last answer of this conversation rested on {len(reply.previous_items)} items"
        )
    show_legs(output, reply.legs, f"{reply.prompt_tokens} tokens")
    warn(output, reply.legs, degraded=reply.degraded)
    return OK


def _custom_template(options: argparse.Namespace) -> str:
    if options.custom_template is None:
        if options.template == "custom":
            raise UsageError("--template custom needs --custom-template FILE")
        return ""
    if options.template not in (None, "custom"):
        raise UsageError(f"--custom-template does not go with --template {options.template}")
    try:
        return Path(options.custom_template).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"{options.custom_template} cannot be read ({why})") from None
