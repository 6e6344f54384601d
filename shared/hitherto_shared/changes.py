"""Changes as they are told: what a row of `memory_changes` holds, and its message.

The extraction service writes and sends them, the retrieval service streams them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from hitherto.v1 import change_pb2
from hitherto_shared.convert import EVENT_KIND, EVENT_KIND_NUMBERS, MEMORY_STATUS, timestamp

CHANNEL = "hitherto_changes"
"""Signalled when changes can be read."""


@dataclass(frozen=True, slots=True)
class ToldChange:
    """One change, without contents.

    Attributes:
        position: Its place in the stream of all changes.
        memory_id: The memory; None if the profile changed.
        action: What happened, as the history calls it.
        old_status: The memory's status before; None if it did not change.
        new_status: The memory's status after it; None if it did not change.
        related_memory_id: The other memory concerned, if any.
        job_id: The job that made it; None if a caller did.
    """

    user_id: str
    position: int
    memory_id: UUID | None
    action: str
    version: int
    old_status: str | None
    new_status: str | None
    related_memory_id: UUID | None
    job_id: UUID | None
    recorded_at: datetime


def told_kind(action: str) -> str:
    """What callers know an action as, of the words of `convert.EVENT_KIND`.

    One that only a newer program knows is `unspecified`.
    """
    return EVENT_KIND.get(EVENT_KIND_NUMBERS.get(action, 0), "unspecified")


def change_message(change: ToldChange) -> change_pb2.MemoryChange:
    """The message of a change, without the memory."""
    return change_pb2.MemoryChange(
        user_id=change.user_id,
        memory_id=str(change.memory_id or ""),
        kind=EVENT_KIND_NUMBERS.get(change.action, 0),  # type: ignore[arg-type]
        version=change.version,
        previous_status=MEMORY_STATUS.numbers.get(change.old_status or "", 0),  # type: ignore[arg-type]
        status=MEMORY_STATUS.numbers.get(change.new_status or "", 0),  # type: ignore[arg-type]
        related_memory_id=str(change.related_memory_id or ""),
        job_id=str(change.job_id or ""),
        created_at=timestamp(change.recorded_at),
    )
