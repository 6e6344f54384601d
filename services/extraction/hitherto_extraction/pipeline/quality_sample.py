"""Checks what is learnt from the first conversations after an installation or a new prompt version.

Two checks without a model: does a new memory hold a number that nobody said, and is it the same as
a known one? They change nothing. Their counts are kept with the job and
summed in the metrics, so that operators notice a model that invents or repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from hitherto_extraction.pipeline.dedupe import Neighbour, same_words
from hitherto_extraction.pipeline.digits import strange
from hitherto_extraction.pipeline.evidence import Witnesses
from hitherto_extraction.pipeline.operations import Plan
from hitherto_extraction.pipeline.prompt import VERSION
from hitherto_extraction.pipeline.result import Result
from hitherto_extraction.queue.claims import Claim
from hitherto_extraction.storage import quality_samples
from hitherto_shared.database.pool import Connection
from hitherto_shared.metrics import QUALITY_CHECKS
from hitherto_shared.models import CURRENT_STATUSES

CHECKED = "quality_checked"
UNGROUNDED = "quality_ungrounded"
DUPLICATE = "quality_duplicate"
_MOST_CHECKED = 50
"""Maximum memories of one reply that are checked."""
_MOST_COMPARED = 16
"""Maximum known memories that are compared with one new memory."""


class QualitySample:
    """The conversations whose memories are checked.

    `size` is the number of conversations for each prompt version; 0 for none.
    """

    def __init__(self, extractor: str, size: int) -> None:
        self._extractor = extractor
        self._size = size
        self._full = size == 0

    async def includes(self, connection: Connection, held: Claim, result: Result) -> bool:
        """Whether the conversation of a job belongs to the sample, or joins it now.

        `connection` is outside a transaction, with the role hitherto_write.
        """
        if CHECKED in result.counts:
            return True
        if self._full:
            return False
        taken, self._full = await quality_samples.take(
            connection.of(held.scope),
            held.conversation,
            extractor=self._extractor,
            prompt_version=VERSION,
            size=self._size,
        )
        return taken


def check(
    plan: Plan, witnesses: Witnesses, neighbours: Mapping[int, Sequence[Neighbour]]
) -> dict[str, int]:
    """The counts of the checks, in the form of `Result.counts`."""
    said = witnesses.for_new((), None)
    names = [each.name for each in witnesses.messages]
    ended: set[UUID] = {closure.before.memory_id for closure in plan.closures}
    made = [each for each in plan.creations if each.list_name == "new"][:_MOST_CHECKED]
    ungrounded = duplicates = 0
    earlier: list[str] = []
    for creation in made:
        content = creation.item.content
        known = [
            each.content
            for each in neighbours.get(creation.position, ())
            if each.status in CURRENT_STATUSES and each.memory_id not in ended
        ]
        ungrounded += bool(strange(content, [*said.words, *names], said.days))
        duplicates += any(same_words(content, each) for each in [*known, *earlier][:_MOST_COMPARED])
        earlier.append(content)
    return {CHECKED: len(made), UNGROUNDED: ungrounded, DUPLICATE: duplicates}


def count(before: Result, after: Result) -> None:
    """Add what was checked between two results of a job to the metrics."""
    checked, ungrounded, duplicates = (
        after.counts.get(name, 0) - before.counts.get(name, 0)
        for name in (CHECKED, UNGROUNDED, DUPLICATE)
    )
    for name, failed in (("grounding", ungrounded), ("duplicate", duplicates)):
        QUALITY_CHECKS.labels(name, "passed").inc(checked - failed)
        QUALITY_CHECKS.labels(name, "failed").inc(failed)
