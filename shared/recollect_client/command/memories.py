"""`recollect memories`, `memory`, `profile` and `conversations`: what is held about a person."""

from __future__ import annotations

import argparse
from typing import Any

from recollect.v1 import conversation_pb2, memory_pb2
from recollect_client.command.exits import OK
from recollect_client.command.options import (
    add_command,
    add_enum,
    add_paging,
    connect,
    numbers,
    read_pages,
    word_of,
    words,
)
from recollect_client.command.output import Output
from recollect_client.command.values import day, free_json, minute

_TYPES = memory_pb2.MemoryType.DESCRIPTOR
_STATUSES = memory_pb2.MemoryStatus.DESCRIPTOR
_SOURCES = memory_pb2.MemorySource.DESCRIPTOR
_CONFIDENCES = memory_pb2.Confidence.DESCRIPTOR
_ORIGINS = memory_pb2.Origin.DESCRIPTOR
_OUTCOMES = conversation_pb2.Outcome.DESCRIPTOR

_ROOM_FOR_IDS = 110
"""From this width on, ids stand on one line."""


def register(commands: Any) -> None:
    """Add the sub-commands."""
    memories = add_command(commands, "memories", "List what is remembered of a user.", _memories)
    memories.add_argument("user", metavar="USER")
    add_enum(memories, "--type", _TYPES, "types", "only memories of this type")
    memories.add_argument("--tag", dest="tags", action="append", default=[], metavar="TAG")
    add_enum(memories, "--status", _STATUSES, "statuses", "only memories with this status")
    add_enum(memories, "--source", _SOURCES, "sources", "only memories made in this way")
    memories.add_argument("--entity", default="", metavar="NAME", help="only what mentions it")
    memories.add_argument("--conversation", default="", metavar="ID", help="only what it taught")
    memories.add_argument("--min-confidence", choices=words(_CONFIDENCES), type=str.lower)
    memories.add_argument(
        "--order-by", default="", choices=("created_at", "importance", "last_accessed_at")
    )
    add_paging(memories)
    memory = add_command(commands, "memory", "Show one memory, whatever its status.", _memory)
    memory.add_argument("user", metavar="USER")
    memory.add_argument("id", metavar="ID")
    profile = add_command(commands, "profile", "Show a user's profile.", _profile)
    profile.add_argument("user", metavar="USER")
    conversations = add_command(
        commands, "conversations", "List the summaries of a user's conversations.", _conversations
    )
    conversations.add_argument("user", metavar="USER")
    add_enum(conversations, "--outcome", _OUTCOMES, "outcomes", "only those that ended so")
    add_paging(conversations)


def _memories(options: argparse.Namespace, output: Output) -> int:
    fields: dict[str, Any] = {
        "types": numbers(_TYPES, options.types),
        "tags": options.tags,
        "statuses": numbers(_STATUSES, options.statuses),
        "sources": numbers(_SOURCES, options.sources),
        "entity": options.entity,
        "conversation_id": options.conversation,
        "order_by": options.order_by,
    }
    if options.min_confidence:
        fields["confidence_min"] = numbers(_CONFIDENCES, [options.min_confidence])[0]
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
        output.note(_nothing(f"no such memories of {options.user}", reply.reason))
        return OK
    output.table(
        ("id", "type", "status", "importance", "what", "since"),
        [
            (
                memory.id,
                word_of(_TYPES, memory.type),
                word_of(_STATUSES, memory.status),
                f"{memory.importance:.2f}",
                memory.content,
                day(memory.valid_from),
            )
            for memory in reply.memories
        ],
        numbers=("importance",),
        whole=("id",) if output.columns >= _ROOM_FOR_IDS else (),
    )
    output.more(len(reply.memories), reply.total_size, reply.next_page_token)
    return OK


def _memory(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.get_memory(options.user, options.id)
    if output.as_json:
        output.document(reply)
        return OK
    if reply.reason:
        output.note(_nothing("the memory is not shown", reply.reason))
        return OK
    memory = reply.memory
    output.pairs(
        [
            ("id", memory.id),
            ("user", memory.user_id),
            ("type", word_of(_TYPES, memory.type)),
            ("status", word_of(_STATUSES, memory.status)),
            ("content", memory.content),
            ("detail", memory.detail),
            ("importance", f"{memory.importance:.2f}"),
            ("confidence", word_of(_CONFIDENCES, memory.confidence)),
            ("source", word_of(_SOURCES, memory.source)),
            ("origin", word_of(_ORIGINS, memory.origin)),
            ("sensitive", "yes" if memory.sensitive else ""),
            ("tags", ", ".join(memory.tags)),
            ("keywords", ", ".join(memory.keywords)),
            ("entities", ", ".join(memory.entities)),
            ("said in", ", ".join(f"{s.conversation_id}: {s.message_id}" for s in memory.sources)),
            ("valid from", minute(memory.valid_from)),
            ("valid to", minute(memory.valid_to)),
            ("expires", minute(memory.expires_at)),
            ("superseded by", memory.superseded_by),
            ("supersedes", ", ".join(memory.supersedes)),
            ("version", memory.version),
            ("created", minute(memory.created_at)),
            ("updated", minute(memory.updated_at)),
            ("last used", minute(memory.last_accessed_at)),
            ("times used", memory.access_count),
            ("written by job", memory.job_id),
            ("context", free_json(memory.context)),
            ("metadata", free_json(memory.metadata)),
        ]
    )
    return OK


def _profile(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = client.get_profile(options.user)
    if output.as_json:
        output.document(reply)
        return OK
    if reply.reason:
        output.note(_nothing("the profile is not shown", reply.reason))
        return OK
    profile = reply.profile
    output.pairs(
        [
            ("user", profile.user_id),
            ("department", profile.department),
            ("summary", profile.summary),
            ("projects", "\n".join(profile.current_projects)),
            ("often wants", "\n".join(profile.frequent_intents)),
            ("preferences", free_json(profile.preferences)),
            ("facts", free_json(profile.facts)),
            ("metadata", free_json(profile.metadata)),
            ("access level", profile.access_level),
            ("version", profile.version),
            ("updated", minute(profile.updated_at)),
            ("last looked at", minute(profile.last_extracted_at)),
        ]
    )
    return OK


def _conversations(options: argparse.Namespace, output: Output) -> int:
    with connect(options) as client:
        reply = read_pages(
            options,
            "conversations",
            lambda size, token: client.list_conversations(
                options.user,
                outcomes=numbers(_OUTCOMES, options.outcomes),
                page_size=size,
                page_token=token,
            ),
        )
    if output.as_json:
        output.document(reply)
        return OK
    if not reply.conversations:
        output.note(_nothing(f"no such conversations of {options.user}", reply.reason))
        return OK
    output.table(
        ("conversation", "title", "summary", "outcome", "messages", "updated"),
        [
            (
                found.conversation_id,
                found.title,
                found.summary,
                word_of(_OUTCOMES, found.outcome),
                found.message_count,
                minute(found.updated_at),
            )
            for found in reply.conversations
        ],
        numbers=("messages",),
    )
    output.more(len(reply.conversations), reply.total_size, reply.next_page_token)
    return OK


def _nothing(text: str, reason: str) -> str:
    return f"{text} ({reason})" if reason else text
