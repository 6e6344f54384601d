"""The snapshot that a run works on: crowded tags of a user, and the memories that have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.consolidation.groups import (
    Group,
    fingerprint,
    mark_of,
    plan_groups,
)
from hitherto_extraction.storage import consolidation
from hitherto_extraction.storage.consolidation import ConsolidationMark, CrowdedTag, Member
from hitherto_shared.database.user_rows import UserRows
from hitherto_shared.embeddings.active_embedder import active_model
from hitherto_shared.offloading import end_if_given_up

_FURTHER = 0.3
"""How much further apart than the same statement two may be that one sentence can say."""
_MOST_ANSWERED = 200


@dataclass(frozen=True, slots=True)
class ConsolidationTarget:
    """The target of a run.

    Attributes:
        tag: Only this tag; None means every crowded one.
        asked: Whether it was requested by Consolidate: a named tag is crowded one memory earlier
            and is processed even if it was before, and memories of both levels of trust are merged.
        above: A tag is crowded if more than this number of memories share it.
    """

    tag: str | None
    asked: bool
    above: int

    @property
    def again(self) -> bool:
        """Whether unchanged groups are processed again."""
        return self.asked and self.tag is not None

    @property
    def crowded_above(self) -> int:
        """The number of memories of a tag that are not yet too many."""
        return self.above - 1 if self.again else self.above


class TagReview:
    """The snapshot of a run; the memories in it change only by the run itself.

    A tag marked as processed thus never includes what others wrote in the meantime. What reads the
    words of many memories (`groups`, `unchanged`, `counts`, `marks`) is called in a thread.

    Args:
        tags: The crowded tags, the largest first.
        members: The memories with these tags, the oldest first.
        nearness: The cosine from which two memories of a tag that was processed before may be about
            the same. The first time, all may: what a tag holds is looked at once as a whole.
    """

    def __init__(
        self, tags: Sequence[CrowdedTag], members: Iterable[Member], nearness: float | None
    ) -> None:
        self.tags = tags
        self._nearness = dict.fromkeys(
            (each.tag for each in tags if each.fingerprint is not None), nearness
        )
        self._answered = {each.tag: dict.fromkeys(each.answered) for each in tags}
        self._by_tag: dict[str, dict[UUID, Member]] = {each.tag: {} for each in tags}
        self._taken: set[UUID] = set()
        self._settled: set[str] = set()
        self._unmarked: set[str] = set()
        for member in members:
            for found in self._sharing(member):
                found[member.memory_id] = member

    def groups(self, tag: str) -> list[Group]:
        """The groups of a tag to ask about; their members count as taken from now on."""
        members = list(self._by_tag[tag].values())
        found = plan_groups(members, taken=self._taken, nearness=self._nearness.get(tag))
        self._taken.update(each.memory_id for group in found for each in group)
        return found

    def is_answered(self, tag: str, group: Group) -> bool:
        """Whether a model has looked at a group of a tag since it changed."""
        return fingerprint(group) in self._answered[tag]

    def answer(self, tag: str, group: Group) -> None:
        """Record that a model has looked at a group."""
        self._answered[tag][fingerprint(group)] = None

    def unchanged(self, crowded: CrowdedTag) -> bool:
        """Whether a tag is unchanged since the last consolidation."""
        return crowded.fingerprint == self._mark(crowded.tag).fingerprint

    def counts(self, *, again: bool) -> dict[str, int]:
        """The numbers of groups and their memories, and of unchanged tags."""
        counts = {"groups": 0, "memories": 0, "skipped_unchanged": 0}
        for crowded in self.tags:
            if self.unchanged(crowded) and not again:
                counts["skipped_unchanged"] += 1
                continue
            groups = [
                group
                for group in self.groups(crowded.tag)
                if again or not self.is_answered(crowded.tag, group)
            ]
            counts["groups"] += len(groups)
            counts["memories"] += sum(map(len, groups))
        return counts

    def replace(self, originals: Sequence[Member], merged: Member) -> None:
        """Replace the originals by a merged memory."""
        for each in originals:
            for found in self._sharing(each):
                found.pop(each.memory_id, None)
        for found in self._sharing(merged):
            found[merged.memory_id] = merged
        self._taken.add(merged.memory_id)
        changed = {tag for each in (*originals, merged) for tag in each.tags}
        self._unmarked |= changed & self._settled

    def settle(self, tag: str) -> None:
        """Take a tag as processed, now or before."""
        self._settled.add(tag)
        self._unmarked.add(tag)

    def marks(self) -> list[ConsolidationMark]:
        """The records of processed tags that are new or changed since the last `marked`."""
        return [self._mark(tag) for tag in sorted(self._unmarked)]

    def marked(self) -> None:
        """The present records are stored."""
        self._unmarked.clear()

    def _sharing(self, member: Member) -> list[dict[UUID, Member]]:
        return [self._by_tag[tag] for tag in member.tags if tag in self._by_tag]

    def _mark(self, tag: str) -> ConsolidationMark:
        end_if_given_up()
        recent = list(self._answered[tag])[-_MOST_ANSWERED:]
        return mark_of(tag, self._by_tag[tag].values(), recent)


async def read_board(user: UserRows, wanted: ConsolidationTarget, *, threshold: float) -> TagReview:
    """The crowded tags of a user and their memories.

    `threshold` is the embedder's cosine for the same statement. What somebody asks for by its tag
    is compared however far apart it is.
    """
    nearness = None if wanted.again else threshold - _FURTHER
    tags = await consolidation.read_crowded(user, tag=wanted.tag, above=wanted.crowded_above)
    if not tags:
        return TagReview([], [], nearness)
    active = await active_model(user.connection)
    model = active[0] if active is not None else ""
    members = await consolidation.read_members(user, [each.tag for each in tags], model=model)
    return TagReview(tags, members, nearness)
