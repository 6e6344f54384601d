"""Queues the reconciliation of a user whose memories changed, or stand near each other.

One waiting job of the user collects what changes, so that a burst of sessions or an import causes
few calls of the model.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.queue import collecting
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_shared.database.user_rows import UserRows

KIND = "reconciliation"

MAX_CHANGED = 200
"""Number of changed memories from which a waiting job takes up no more."""


@dataclass(frozen=True, slots=True)
class Reconciling:
    """Queues reconciliations; without a model (`enabled` false), nothing is queued.

    A job waits `delay_seconds` after the last change, but at most ten times as long.
    """

    queue: JobQueue
    enabled: bool
    delay_seconds: float = 0.0

    async def look(
        self, user: UserRows, changed: Collection[UUID], *, reached: Collection[UUID] = ()
    ) -> None:
        """Queue one for memories that changed, in the caller's transaction.

        Among those that these may replace, `reached` are goals that somebody said were reached.
        The caller holds the user's row, so that two writers do not queue two jobs.
        """
        if not (self.enabled and changed):
            return
        wanted = list(changed)
        for start in range(0, len(wanted), MAX_CHANGED):
            part = wanted[start : start + MAX_CHANGED]
            params = {"changed": list(map(str, part)), "reached": list(map(str, reached))}
            if not await collecting.add_to_waiting(
                user, params, delay_seconds=self.delay_seconds, full=MAX_CHANGED
            ):
                await self.queue.enqueue_of(user, KIND, params, debounce_seconds=self.delay_seconds)
