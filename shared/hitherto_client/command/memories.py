"""`hitherto memories`, `memory` and `history`: what is remembered of a person, and its changes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format

from hitherto.v1 import history_pb2
from hitherto_client.command.learning import tell_waiting, waiting
from hitherto_client.command.options import Argument, connect
from hitherto_client.command.output import Output
from hitherto_client.command.rpc import CONSISTENCY, UNTIL, USER, Command, Option, Rpc
from hitherto_client.command.show import Column, OneRecord, Pair, Rows, day, short
from hitherto_client.command.waits import Waits

FILTERS = (
    Option("--type", "types", "only memories of this type"),
    Option("--tag", "tags", metavar="TAG"),
    Option("--status", "statuses", "only memories with this status"),
    Option("--source", "sources", "only memories created in this way"),
    Option("--entity", "entity", "only items that mention this entity", "NAME"),
    Option("--conversation", "conversation_id", "only items from this conversation", "ID"),
    Option("--min-confidence", "confidence_min"),
    Option("--created-after", "created_after", "only items created at this time or later"),
    Option("--created-before", "created_before", f"items created {UNTIL}"),
    Option("--metadata", "metadata_filter", "only items with all of these metadata values"),
    Option("--doubtful", "include_doubtful", "also memories that may no longer hold (the default)"),
)
"""What narrows a search and a list alike."""
TIME_TRAVEL = (
    Option("--as-of", "as_of", "what was true at this time"),
    Option("--known-at", "known_at", "what was known at this time"),
    CONSISTENCY,
)


def _uncertain(memory: Any) -> str:
    """Since when a memory may no longer hold, and why; empty while it is certain."""
    if not memory.HasField("doubt"):
        return ""
    since = f"uncertain since {day(memory.doubt.since)}"
    return f" ({since}: {memory.doubt.reason})" if memory.doubt.reason else f" ({since})"


MEMORIES = (
    Column("id", "id", whole=True),
    "type",
    "status",
    Column("importance", lambda memory: f"{memory.importance:.2f}", number=True),
    Column("what", lambda memory: f"{memory.content}{_uncertain(memory)}"),
    Column("since", lambda memory: day(memory.valid_from)),
)
_MEMORY: tuple[Pair, ...] = (
    "id",
    ("user", "user_id"),
    "type",
    "status",
    "content",
    ("uncertain", lambda memory: _uncertain(memory).strip(" ()")),
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
    days=True,
)
_ONE = Rpc(
    "GetMemory",
    (USER, Option("id", "memory_id"), CONSISTENCY),
    OneRecord("memory", _MEMORY, "the memory is not shown"),
)


def change(event: history_pb2.HistoryEvent) -> str:
    """The fields that changed, before and after; of what is new, what it says."""
    before, after = (json_format.MessageToDict(part) for part in (event.before, event.after))
    if not before and isinstance(after.get("content"), str):
        return short(after["content"])
    return "; ".join(
        f"{name}: {_value(before.get(name))} → {_value(after.get(name))}"
        for name in _names(before, after)
        if before.get(name) != after.get(name)
    )


def _names(*parts: dict[str, Any]) -> Iterable[str]:
    return dict.fromkeys(name for part in parts for name in sorted(part))


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    return short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)


def _why(event: history_pb2.HistoryEvent) -> str:
    parts = [
        event.reason,
        event.job_id and f"job {event.job_id}",
        event.related_memory_id and f"memory {event.related_memory_id}",
    ]
    return ", ".join(part for part in parts if part)


_HISTORY = Rows(
    "events",
    (
        Column("when", "created_at", whole=True),
        Column("version", lambda event: event.version or "", number=True),
        Column("what", "kind"),
        Column("change", change),
        Column("who", "actor"),
        Column("why", _why),
    ),
    "nothing has changed yet",
)
_OF_MEMORY = Rpc(
    "GetMemoryHistory",
    (
        USER,
        Option(
            "id", "memory_id", "a memory; without it the profile's history is shown", needed=False
        ),
        CONSISTENCY,
    ),
    _HISTORY,
)
_OF_PROFILE = Rpc("GetProfileHistory", (), _HISTORY)


def _memories(options: argparse.Namespace, output: Output) -> int:
    code = _LIST.run(options, output)
    if not output.as_json:
        with connect(options) as client:
            tell_waiting(output, options.user_id, waiting(client, options.user_id))
            Waits(client, output).look_at(options.user_id)
    return code


COMMANDS = (
    Command(
        "memories",
        "List a user's memories.",
        _LIST,
        Argument(
            "--order-by", default="", choices=("created_at", "importance", "last_accessed_at")
        ),
        run=_memories,
    ),
    Command("memory", "Show one memory, whatever its status.", _ONE),
)
HISTORY = (
    Command(
        "history",
        "Show every change of a memory, or of the user's profile.",
        _OF_MEMORY,
        run=lambda options, output: (_OF_MEMORY if options.memory_id else _OF_PROFILE).run(
            options, output
        ),
    ),
)
