"""Rebuilds a memory without some of the statements about it, as a pure function.

A version that no statement explains was made by hand or by upkeep: the fields it changed are set
again. One by which somebody restored what nothing stated any more states it, as it was then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from hitherto_extraction.rollback.rebuilt import RebuiltMemory
from hitherto_extraction.storage.rollback import StoredVersion
from hitherto_extraction.storage.statements import StoredStatement


def replay(
    versions: Sequence[StoredVersion],
    statements: Sequence[StoredStatement],
    *,
    skipped: Collection[int] = (),
    restored: Collection[int] = (),
    stating: Collection[int] = (),
    asked: Collection[int] = (),
    gone: Collection[UUID] = (),
    hidden: Collection[UUID] = (),
) -> dict[str, Any]:
    """The fields of the memory from the remaining statements; see `MemoryHistory` and `Gone`.

    If nothing states it any more, `content` is empty, and `status` says whether a request to forget
    it stands; `forgotten_at` is when it was last forgotten, if it was. `skipped` versions do not
    count although no statement explains them: those of roll-backs and of what is rolled back.
    """
    explained = {each.version for each in statements if each.made_version}
    said = defaultdict[int, list[StoredStatement]](list)
    for each in statements:
        said[each.version].append(each)
    rebuilt = RebuiltMemory(gone, hidden)
    rebuilt.held["type"] = versions[0].fields["type"]
    # What ended with its first words stays so: there is nothing before them.
    undone = {
        each.version
        for each in versions[1:]
        if (each.version in skipped and each.job_id is not None) or _is_undone(said[each.version])
    }
    for place, version in enumerate(versions):
        before = versions[place - 1] if place else None
        if version.version in stating:
            rebuilt.state(version, versions[:place], undone)
        elif version.version not in explained and version.version not in skipped:
            if before is not None and version.version in restored:
                rebuilt.restore(before, version)
            else:
                rebuilt.change(before, version)
            if version.version in asked:
                rebuilt.forget(version.at)
        rebuilt.at = version.at
        for each in said[version.version]:
            if not each.taken:
                rebuilt.hear(each)
    return {**rebuilt.held, "forgotten_at": rebuilt.ended_at}


def stating(
    versions: Sequence[StoredVersion],
    statements: Sequence[StoredStatement],
    rolled_back: Collection[int],
    restored: Collection[int],
) -> frozenset[int]:
    """Those versions by which somebody `restored` a memory when nothing else stated it.

    What is taken back afterwards changes nothing about that: who restored it states it since. Who
    said it again made a statement, which explains the version and can be taken back.
    """
    found = set[int]()
    explained = {each.version for each in statements if each.made_version}
    for place, version in enumerate(versions):
        if version.version not in restored or version.version in explained:
            continue
        then = [
            replace(each, taken=each.taken_at is not None and each.taken_at <= version.at)
            for each in statements
            if each.version < version.version
        ]
        # What stands for a version that was taken back later did not count then.
        then = [each for each in then if each.taken or each.action != "taken"]
        before = versions[:place]
        if not replay(before, then, skipped=rolled_back, restored=restored, stating=found)[
            "content"
        ]:
            found.add(version.version)
    return frozenset(found)


def _is_undone(said: Sequence[StoredStatement]) -> bool:
    """Whether all that made a version has been taken back, and it did not begin the memory."""
    made = [each for each in said if each.made_version]
    return bool(made) and all(each.taken and each.action != "said" for each in made)
