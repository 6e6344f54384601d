"""Groups memories that may be merged: same tag, compatible types, at most 20."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_extraction.storage.consolidation import ConsolidationMark, Member
from hitherto_shared.offloading import end_if_given_up

MAX_ORIGINALS = 20
"""Maximum memories in one model call."""

_GO_TOGETHER = frozenset("preference feedback fact learning".split())
"""Types that models confuse. The others have rules of their own: context decays, decisions never
do, goals are achieved, personal details may be sealed."""


@dataclass(frozen=True, slots=True)
class Group:
    """Memories for one model call, the oldest first."""

    members: tuple[Member, ...]


def plan_groups(members: Sequence[Member], *, taken: Collection[UUID]) -> list[Group]:
    """Divide the memories of one tag into groups of at least two, each of one level of trust.

    Args:
        members: The memories, the oldest first.
        taken: Those that are in another group of this run.

    Raises:
        GivenUp: It runs in a thread, and nobody waits for it any more.
    """
    alike: defaultdict[tuple[str, str], list[Member]] = defaultdict(list)
    for member in members:
        end_if_given_up()
        if member.memory_id not in taken:
            kind = "*" if member.type in _GO_TOGETHER else member.type
            alike[kind, member.origin].append(member)
    return [
        Group(tuple(chunk))
        for found in alike.values()
        for start in range(0, len(found), MAX_ORIGINALS)
        if len(chunk := found[start : start + MAX_ORIGINALS]) > 1
    ]


def fit_together(type_: str, other: str) -> bool:
    """Whether memories of two types may be merged."""
    return type_ == other or (type_ in _GO_TOGETHER and other in _GO_TOGETHER)


def fingerprint(members: Iterable[tuple[UUID, str]]) -> bytes:
    """A digest that is equal for the same memories with the same contents, in any order."""
    digest = hashlib.sha256()
    for memory_id, content in sorted(members, key=lambda pair: pair[0].int):
        digest.update(memory_id.bytes)
        digest.update(hashlib.sha256(content.encode()).digest())
    return digest.digest()


def mark_of(tag: str, members: Iterable[Member]) -> ConsolidationMark:
    """The record of a tag after consolidation."""
    left = [(each.memory_id, each.content) for each in members if tag in each.tags]
    return ConsolidationMark(tag, fingerprint(left), len(left))
