"""`recollect memories` and `recollect memory`: what is remembered of a person."""

from __future__ import annotations

import argparse
from typing import Any

from recollect_client.command.exits import OK
from recollect_client.command.memory_view import (
    CONFIDENCES,
    SOURCES,
    STATUSES,
    TYPES,
    nothing,
    show_memories,
    show_memory,
)
from recollect_client.command.options import (
    add_command,
    add_enum,
    add_paging,
    add_user,
    connect,
    numbers,
    read_pages,
    words,
)
from recollect_client.command.output import Output


def register(commands: Any) -> None:
    """Add the sub-commands."""
    memories = add_command(commands, "memories", "List what is remembered of a user.", _memories)
    add_user(memories)
    add_enum(memories, "--type", TYPES, "types", "only memories of this type")
    memories.add_argument("--tag", dest="tags", action="append", default=[], metavar="TAG")
    add_enum(memories, "--status", STATUSES, "statuses", "only memories with this status")
    add_enum(memories, "--source", SOURCES, "sources", "only memories made in this way")
    memories.add_argument("--entity", default="", metavar="NAME", help="only what mentions it")
    memories.add_argument("--conversation", default="", metavar="ID", help="only what it taught")
    memories.add_argument("--min-confidence", choices=words(CONFIDENCES), type=str.lower)
    memories.add_argument(
        "--order-by", default="", choices=("created_at", "importance", "last_accessed_at")
    )
    add_paging(memories)
    memory = add_command(commands, "memory", "Show one memory, whatever its status.", _memory)
    add_user(memory)
    memory.add_argument("id", metavar="ID")


def _memories(options: argparse.Namespace, output: Output) -> int:
    fields: dict[str, Any] = {
        "types": numbers(TYPES, options.types),
        "tags": options.tags,
        "statuses": numbers(STATUSES, options.statuses),
        "sources": numbers(SOURCES, options.sources),
        "entity": options.entity,
        "conversation_id": options.conversation,
        "order_by": options.order_by,
    }
    if options.min_confidence:
        fields["confidence_min"] = numbers(CONFIDENCES, [options.min_confidence])[0]
    with connect(options) as client:
        reply = read_pages(
            options,
            "memories",
            lambda size, token: client.list_memories(
                options.user, page_size=size, page_token=token, **fields
            ),
        )
    if output.as_json:
        output.document(reply)
        return OK
    if not reply.memories:
        output.note(nothing(f"no such memories of {options.user}", reply.reason))
        return OK
    show_memories(output, reply.memories)
    output.more(len(reply.memories), reply.total_size, reply.next_page_token)
    return OK


def _memory(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.get_memory(options.user, options.id)
    if output.as_json:
        output.document(reply)
    elif reply.reason:
        output.note(nothing("the memory is not shown", reply.reason))
    else:
        show_memory(output, reply.memory)
    return OK
