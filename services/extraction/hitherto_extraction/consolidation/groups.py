"""Groups memories that may be merged: same tag, compatible types, at most 20, nearness."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

import numpy as np

from hitherto_extraction.storage.consolidation import ConsolidationMark, Member
from hitherto_shared.offloading import end_if_given_up

MAX_ORIGINALS = 20
"""Maximum memories in one model call."""

_COMPARED_AT_ONCE = 256
_GO_TOGETHER = frozenset("preference feedback fact learning".split())
"""Types that models confuse. The others have rules of their own: context decays, decisions never
do, goals are achieved, personal details may be sealed."""


Group = Sequence[Member]
"""Memories for one model call, the oldest first."""


def plan_groups(
    members: Sequence[Member], *, taken: Collection[UUID], nearness: float | None
) -> list[Group]:
    """Divide the memories of one tag, the oldest first, into groups of one level of trust.

    Those that are `taken` stand in another group of this run. Two belong into one group, directly
    or through others, from the cosine `nearness` on, without it all do. A memory without a vector
    belongs to all others without one.
    """
    alike: defaultdict[tuple[str, str], list[Member]] = defaultdict(list)
    for member in members:
        end_if_given_up()
        if member.memory_id not in taken:
            kind = "*" if member.type in _GO_TOGETHER else member.type
            alike[kind, member.origin].append(member)
    return [
        chunk
        for found in alike.values()
        for near in ([found] if nearness is None else _clusters(found, nearness))
        for start in range(0, len(near), MAX_ORIGINALS)
        if len(chunk := near[start : start + MAX_ORIGINALS]) > 1
    ]


def _clusters(members: Sequence[Member], nearness: float) -> list[list[Member]]:
    """The memories that are near each other, each cluster in the order of the memories."""
    leader = list(range(len(members)))

    def first(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    plain = [number for number, each in enumerate(members) if each.vector is None]
    for number in plain[1:]:
        leader[number] = plain[0]
    known = [number for number, each in enumerate(members) if each.vector is not None]
    if known:
        rows = np.stack([members[each].vector.to_numpy().astype(np.float32) for each in known])  # type: ignore[union-attr]
        for start in range(0, len(known), _COMPARED_AT_ONCE):
            end_if_given_up()
            cosines = rows[start : start + _COMPARED_AT_ONCE] @ rows.T
            for one, other in np.argwhere(cosines >= nearness).tolist():
                older, newer = sorted((first(known[start + one]), first(known[other])))
                leader[newer] = older
    found: defaultdict[int, list[Member]] = defaultdict(list)
    for number, member in enumerate(members):
        found[first(number)].append(member)
    return list(found.values())


def fit_together(type_: str, other: str) -> bool:
    """Whether memories of two types may be merged."""
    return type_ == other or (type_ in _GO_TOGETHER and other in _GO_TOGETHER)


def fingerprint(group: Group) -> bytes:
    """A digest that is equal for the same memories with the same contents, in any order."""
    digest = hashlib.sha256()
    for each in sorted(group, key=lambda each: each.memory_id.int):
        digest.update(each.memory_id.bytes)
        digest.update(hashlib.sha256(each.content.encode()).digest())
    return digest.digest()


def mark_of(
    tag: str, members: Iterable[Member], answered: Iterable[bytes] = ()
) -> ConsolidationMark:
    """The record of a tag after consolidation."""
    left = [each for each in members if tag in each.tags]
    return ConsolidationMark(tag, fingerprint(left), len(left), list(answered))
