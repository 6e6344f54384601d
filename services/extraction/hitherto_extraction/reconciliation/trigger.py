"""Queues the reconciliation of a user whose memories changed, or stand near each other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_shared.database.user_rows import UserRows


@dataclass(frozen=True, slots=True)
class Reconciling:
    """Queues reconciliations; without a model (`enabled` false), nothing is queued."""

    queue: JobQueue
    enabled: bool

    async def look(self, user: UserRows, changed: Collection[UUID]) -> None:
        """Queue one for memories that changed, in the caller's transaction."""
        if not (self.enabled and changed):
            return
