"""`hitherto memories` and `hitherto memory`: what is remembered of a person."""

from __future__ import annotations

import argparse
from typing import Any

from hitherto_client.command.exits import OK
from hitherto_client.command.filters import (
    add_consistency,
    add_filters,
    add_time_travel,
    filter_fields,
    moment_fields,
)
from hitherto_client.command.memory_view import nothing, show_memories, show_memory
from hitherto_client.command.options import (
    add_command,
    add_paging,
    add_user,
    connect,
    read_pages,
)
from hitherto_client.command.output import Output


def register(commands: Any) -> None:
    """Add the sub-commands."""
    memories = add_command(commands, "memories", "List a user's memories.", _memories)
    add_user(memories)
    add_filters(memories)
    memories.add_argument(
        "--order-by", default="", choices=("created_at", "importance", "last_accessed_at")
    )
    add_time_travel(memories)
    add_consistency(memories)
    add_paging(memories)
    memory = add_command(commands, "memory", "Show one memory, whatever its status.", _memory)
    add_user(memory)
    memory.add_argument("id", metavar="ID")
    add_consistency(memory)


def _memories(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = read_pages(
            options,
            "memories",
            lambda size, token: client.list_memories(
                options.user,
                order_by=options.order_by,
                page_size=size,
                page_token=token,
                **filter_fields(options),
                **moment_fields(options),
            ),
        )
    if output.as_json:
        output.document(reply)
        return OK
    if not reply.memories:
        output.note(nothing(f"no matching memories of {options.user}", reply.reason))
        return OK
    show_memories(output, reply.memories)
    output.more(len(reply.memories), reply.total_size, reply.next_page_token)
    return OK


def _memory(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.get_memory(
            options.user, options.id, consistency_token=options.consistency_token
        )
    if output.as_json:
        output.document(reply)
    elif reply.reason:
        output.note(nothing("the memory is not shown", reply.reason))
    else:
        show_memory(output, reply.memory)
    return OK
