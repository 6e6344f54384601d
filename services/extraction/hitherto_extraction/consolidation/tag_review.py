"""What one run knows of a user: crowded tags, the memories under them, and what became of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from hitherto_extraction.consolidation.groups import Group, mark_of, plan_groups
from hitherto_extraction.storage import consolidation, profiles
from hitherto_extraction.storage.consolidation import Crowded, Mark, Member
from hitherto_shared.database.pool import Connection
from hitherto_shared.encryption.failures import KeyUnavailable
from hitherto_shared.encryption.sealed import UserKey
from hitherto_shared.models import Profile, Scope


@dataclass(frozen=True, slots=True)
class ConsolidationTarget:
    """What a run is to look at.

    Attributes:
        tag: Only this tag; None is every crowded one.
        asked: Somebody called Consolidate: a named tag is crowded a memory earlier and looked at
            even if it was before, and memories of both levels of trust are merged.
        above: A tag is crowded when more than so many memories share it.
    """

    tag: str | None
    asked: bool
    above: int

    @property
    def again(self) -> bool:
        """Whether groups are looked at that have not changed since the last look."""
        return self.asked and self.tag is not None

    @property
    def crowded_above(self) -> int:
        """How many memories of a tag are not yet too many."""
        return self.above - 1 if self.again else self.above


@dataclass(slots=True)
class TagReview:
    """The snapshot of a run; the memories in it change only by what the run itself does.

    So what is marked as looked at never holds what somebody else wrote in the meantime.

    Attributes:
        tags: The crowded tags, the largest first.
        members: The memories under them by id, the oldest first.
        names: What the user is called.
        taken: Memories that were put before the model in this run.
        settled: Tags that were looked at, now or before.
    """

    tags: Sequence[Crowded]
    members: dict[UUID, Member]
    names: Sequence[str]
    taken: set[UUID] = field(default_factory=set)
    settled: list[str] = field(default_factory=list)

    def groups(self, tag: str) -> list[Group]:
        """The groups of a tag that are to be asked about; their members are taken from now on."""
        found = plan_groups(
            [each for each in self.members.values() if tag in each.tags],
            taken=self.taken,
            names=self.names,
        )
        self.taken.update(each.memory_id for group in found for each in group.members)
        return found

    def unchanged(self, crowded: Crowded) -> bool:
        """Whether a tag is as the last look left it."""
        left = mark_of(crowded.tag, self.members.values())
        return crowded.fingerprint == left.fingerprint

    def replace(self, originals: Sequence[Member], merged: Member) -> None:
        """Put a merged memory in the place of its originals."""
        for each in originals:
            self.members.pop(each.memory_id, None)
        self.members[merged.memory_id] = merged
        self.taken.add(merged.memory_id)

    def marks(self) -> list[Mark]:
        """What is to be remembered of the tags that were looked at."""
        return [mark_of(tag, self.members.values()) for tag in self.settled]


async def read_board(
    connection: Connection, scope: Scope, wanted: ConsolidationTarget, key: UserKey | None = None
) -> TagReview:
    """What is to be looked at for a user.

    Without the `key` that opens the profile the user's name is not known, and what names them by
    it is taken for somebody else's: it is then not merged with what is the user's.
    """
    tags = await consolidation.read_crowded(
        connection, scope, tag=wanted.tag, above=wanted.crowded_above
    )
    if not tags:
        return TagReview([], {}, [])
    members = await consolidation.read_members(connection, scope, [each.tag for each in tags])
    try:
        profile, _ = await profiles.read_profile(connection, scope, key)
    except KeyUnavailable:
        profile = Profile(scope.user_id)
    personal = profile.facts.get("personal")
    name = personal.get("name") if isinstance(personal, dict) else None
    names = [name] if isinstance(name, str) and name.strip() else []
    return TagReview(tags, {each.memory_id: each for each in members}, names)
