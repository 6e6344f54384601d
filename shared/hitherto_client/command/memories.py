"""`hitherto memories` and `hitherto memory`: what is remembered of a person."""

from __future__ import annotations

from typing import Any

from hitherto_client.command.rpc import CONSISTENCY, USER, Option, Rpc, declare
from hitherto_client.command.show import Column, OneRecord, Pair, Rows
from hitherto_client.command.values import day

FILTERS = (
    Option("--type", "types", "only memories of this type"),
    Option("--tag", "tags", metavar="TAG"),
    Option("--status", "statuses", "only memories with this status"),
    Option("--source", "sources", "only memories created in this way"),
    Option("--entity", "entity", "only items that mention this entity", "NAME"),
    Option("--conversation", "conversation_id", "only items from this conversation", "ID"),
    Option("--min-confidence", "confidence_min"),
    Option("--created-after", "created_after", "only items created at this time or later"),
    Option("--created-before", "created_before", "only items created before this time"),
    Option("--metadata", "metadata_filter", "only items with all of these metadata values"),
)
"""What narrows a search and a list alike."""
TIME_TRAVEL = (
    Option("--as-of", "as_of", "what was true at this time"),
    Option("--known-at", "known_at", "what was known at this time"),
    CONSISTENCY,
)
MEMORIES = (
    Column("id", "id", whole=True),
    "type",
    "status",
    Column("importance", lambda memory: f"{memory.importance:.2f}", number=True),
    Column("what", "content"),
    Column("since", lambda memory: day(memory.valid_from)),
)
_MEMORY: tuple[Pair, ...] = (
    "id",
    ("user", "user_id"),
    "type",
    "status",
    "content",
    "detail",
    ("importance", lambda memory: f"{memory.importance:.2f}"),
    "confidence",
    "source",
    "origin",
    "sensitive",
    "tags",
    "keywords",
    "entities",
    (
        "said in",
        lambda memory: ", ".join(f"{s.conversation_id}: {s.message_id}" for s in memory.sources),
    ),
    ("valid from", "valid_from"),
    ("valid to", "valid_to"),
    ("expires", "expires_at"),
    ("superseded by", "superseded_by"),
    "supersedes",
    "version",
    ("created", "created_at"),
    ("updated", "updated_at"),
    ("last used", "last_accessed_at"),
    ("times used", "access_count"),
    ("written by job", "job_id"),
    "context",
    "metadata",
)
_LIST = Rpc(
    "ListMemories",
    (USER, *FILTERS, *TIME_TRAVEL),
    Rows("memories", MEMORIES, "no matching memories of {user_id}"),
)
_ONE = Rpc(
    "GetMemory",
    (USER, Option("id", "memory_id"), CONSISTENCY),
    OneRecord("memory", _MEMORY, "the memory is not shown"),
)


def register(commands: Any) -> None:
    """Add the sub-commands."""
    memories = declare(commands, "memories", "List a user's memories.", _LIST)
    memories.add_argument(
        "--order-by", default="", choices=("created_at", "importance", "last_accessed_at")
    )
    declare(commands, "memory", "Show one memory, whatever its status.", _ONE)
