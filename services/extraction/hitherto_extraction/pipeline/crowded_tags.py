"""Detects tags shared by too many memories when memories are written, and queues consolidation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hitherto_extraction.pipeline.operations import Plan
from hitherto_extraction.queue.enqueueing import JobQueue
from hitherto_extraction.storage import consolidation
from hitherto_shared.database.user_rows import UserRows

KIND = "consolidation"


@dataclass(frozen=True, slots=True)
class Crowding:
    """Queues jobs for tags that more than `above` active memories of a user share.

    A tag that is still crowded after a consolidation is consolidated again when it has grown by
    `above` memories, or by the nightly run. Without this rule, every further memory of a large and
    varied tag would cost a model call.
    """

    queue: JobQueue
    above: int

    async def look(self, user: UserRows, tags: Iterable[str]) -> list[str]:
        """Queue a job for each of these tags that has become crowded; returns the tags.

        The caller holds the user's row and has just written memories with these tags, so that two
        writers do not queue the same job, and the job commits together with its cause.
        """
        wanted = sorted(set(tags))
        if not wanted:
            return []
        crowded = await consolidation.newly_crowded(user, wanted, above=self.above)
        for tag in crowded:
            await self.queue.enqueue_of(user, KIND, {"tag": tag})
        return crowded


def tags_touched(plan: Plan) -> set[str]:
    """The tags under which a plan creates or rewords a memory."""
    touched = {tag for made in plan.creations if made.status == "active" for tag in made.item.tags}
    for change in plan.rewrites:
        before, after = change.before, change.after
        if after.status == "active" and (
            before.status != "active"
            or after.content != before.content
            or list(after.tags) != list(before.tags)
        ):
            touched.update(after.tags)
    return touched
