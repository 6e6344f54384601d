"""`hitherto context`: what an assistant would be told."""

from __future__ import annotations

import argparse
from typing import Any

from hitherto_client.command.exits import UsageError
from hitherto_client.command.memories import TIME_TRAVEL
from hitherto_client.command.options import read_text
from hitherto_client.command.output import Output
from hitherto_client.command.result_view import show_legs, warn
from hitherto_client.command.rpc import USER, Option, Rpc, declare
from hitherto_client.command.search import COUNT_ACCESS, REFERENCE_TIME
from hitherto_client.command.show import nothing


def _show(output: Output, options: argparse.Namespace, reply: Any) -> None:
    if reply.prompt_block:
        output.text(reply.prompt_block)
    else:
        output.note(nothing(f"nothing is known about {options.user_id} yet", reply.reason))
    if reply.previous_items:
        output.note(
            f"the last answer of this conversation rested on {len(reply.previous_items)} items"
        )
    show_legs(output, reply.legs, f"{reply.prompt_tokens} tokens")
    warn(output, reply.legs, degraded=reply.degraded)


_CONTEXT = Rpc(
    "GetContext",
    (
        USER,
        Option("query", "query", needed=False),
        Option("--template", "template"),
        Option("--max-tokens", "max_tokens", "token budget of the block"),
        Option("--conversation", "conversation_id", "the current conversation", "ID"),
        Option("--scope", "scopes", "what the query searches"),
        Option("--max-memories", "max_memories", "most important memories; 0 leaves them out"),
        Option("--max-relevant", "max_relevant", "results for the query; 0 leaves them out"),
        Option("--max-conversations", "max_conversations", "past conversations; 0 leaves them out"),
        Option("--max-entities", "max_entities", "known entities; 0 leaves them out"),
        Option("--order", "memory_order", "order of the most important memories"),
        Option("--provenance", "include_provenance", "show origin, date and id of every memory"),
        Option("--dates", "line_dates", "whether lines have dates (default: with a query)"),
        REFERENCE_TIME,
        *TIME_TRAVEL,
        COUNT_ACCESS,
    ),
    _show,
)


def register(commands: Any) -> None:
    """Add the sub-command."""
    context = declare(
        commands,
        "context",
        "Print the context block for an assistant's prompt.",
        _CONTEXT,
        _context,
    )
    context.add_argument(
        "--custom-template", dest="file", metavar="FILE", help="a template of your own"
    )


def _context(options: argparse.Namespace, output: Output) -> int:
    if options.file is None and options.template == "custom":
        raise UsageError("--template custom needs --custom-template FILE")
    if options.file is not None:
        if options.template not in (None, "custom"):
            raise UsageError(f"--custom-template does not go with --template {options.template}")
        options.template, options.custom_template = "custom", read_text(options.file)
    return _CONTEXT.run(options, output)
