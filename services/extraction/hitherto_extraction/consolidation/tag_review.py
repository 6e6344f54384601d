"""The snapshot that a run works on: crowded tags of a user, and the memories that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from hitherto_extraction.consolidation.groups import Group, mark_of, plan_groups
from hitherto_extraction.storage import consolidation, profiles
from hitherto_extraction.storage.consolidation import ConsolidationMark, CrowdedTag, Member
from hitherto_shared.database.pool import Connection
from hitherto_shared.encryption.failures import KeyUnavailable
from hitherto_shared.models import Profile, Scope


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


@dataclass(slots=True)
class TagReview:
    """The snapshot of a run; the memories in it change only by the run itself.

    A tag marked as processed thus never includes what others wrote in the meantime.

    Attributes:
        tags: The crowded tags, the largest first.
        members: The memories with these tags by id, the oldest first.
        names: The user's names.
        taken: Memories that were sent to the model in this run.
        settled: Tags that were processed, now or before.
    """

    tags: Sequence[CrowdedTag]
    members: dict[UUID, Member]
    names: Sequence[str]
    taken: set[UUID] = field(default_factory=set)
    settled: list[str] = field(default_factory=list)

    def groups(self, tag: str) -> list[Group]:
        """The groups of a tag to ask about; their members count as taken from now on."""
        found = plan_groups(
            [each for each in self.members.values() if tag in each.tags],
            taken=self.taken,
            names=self.names,
        )
        self.taken.update(each.memory_id for group in found for each in group.members)
        return found

    def unchanged(self, crowded: CrowdedTag) -> bool:
        """Whether a tag is unchanged since the last consolidation."""
        left = mark_of(crowded.tag, self.members.values())
        return crowded.fingerprint == left.fingerprint

    def replace(self, originals: Sequence[Member], merged: Member) -> None:
        """Replace the originals by a merged memory."""
        for each in originals:
            self.members.pop(each.memory_id, None)
        self.members[merged.memory_id] = merged
        self.taken.add(merged.memory_id)

    def marks(self) -> list[ConsolidationMark]:
        """The records of the tags that were processed."""
        return [mark_of(tag, self.members.values()) for tag in self.settled]


async def read_board(
    connection: Connection, scope: Scope, wanted: ConsolidationTarget
) -> TagReview:
    """The crowded tags of a user and their memories.

    Without the key to a sealed profile, the user's name is unknown, and memories that use it
    count as being about somebody else: they are then not merged with the user's.
    """
    tags = await consolidation.read_crowded(
        connection, scope, tag=wanted.tag, above=wanted.crowded_above
    )
    if not tags:
        return TagReview([], {}, [])
    members = await consolidation.read_members(connection, scope, [each.tag for each in tags])
    try:
        profile, _ = await profiles.read_profile(connection, scope)
    except KeyUnavailable:
        profile = Profile(scope.user_id)
    personal = profile.facts.get("personal")
    name = personal.get("name") if isinstance(personal, dict) else None
    names = [name] if isinstance(name, str) and name.strip() else []
    return TagReview(tags, {each.memory_id: each for each in members}, names)
