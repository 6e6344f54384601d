"""Memories as people read them."""

from __future__ import annotations

from collections.abc import Iterable

from hitherto.v1 import memory_pb2
from hitherto_client.command.options import word_of
from hitherto_client.command.output import Output
from hitherto_client.command.values import day, free_json, minute

TYPES = memory_pb2.MemoryType.DESCRIPTOR
STATUSES = memory_pb2.MemoryStatus.DESCRIPTOR
SOURCES = memory_pb2.MemorySource.DESCRIPTOR
CONFIDENCES = memory_pb2.Confidence.DESCRIPTOR
ORIGINS = memory_pb2.Origin.DESCRIPTOR

_ROOM_FOR_IDS = 110
"""From this width on, ids stand on one line."""


def show_memories(output: Output, memories: Iterable[memory_pb2.Memory]) -> None:
    """One row each."""
    output.table(
        ("id", "type", "status", "importance", "what", "since"),
        [
            (
                memory.id,
                word_of(TYPES, memory.type),
                word_of(STATUSES, memory.status),
                f"{memory.importance:.2f}",
                memory.content,
                day(memory.valid_from),
            )
            for memory in memories
        ],
        numbers=("importance",),
        whole=("id",),
    )


def show_memory(output: Output, memory: memory_pb2.Memory) -> None:
    """Everything that is held about one."""
    output.pairs(
        [
            ("id", memory.id),
            ("user", memory.user_id),
            ("type", word_of(TYPES, memory.type)),
            ("status", word_of(STATUSES, memory.status)),
            ("content", memory.content),
            ("detail", memory.detail),
            ("importance", f"{memory.importance:.2f}"),
            ("confidence", word_of(CONFIDENCES, memory.confidence)),
            ("source", word_of(SOURCES, memory.source)),
            ("origin", word_of(ORIGINS, memory.origin)),
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


def nothing(text: str, reason: str) -> str:
    """What is said where there is nothing to show, with the service's reason if it gives one."""
    return f"{text} ({reason})" if reason else text
