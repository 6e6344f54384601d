"""The branch of a conversation that the user saw last, where edits and retries make others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


def last_branch(
    parents: Mapping[str, str], leaf: str, newest: Sequence[str], spoken: Collection[str]
) -> list[str]:
    """The ids of one branch, from its beginning.

    Args:
        parents: The parent of each id.
        leaf: The last id of the branch, as the export names it. If it is none of the ids, or
            nobody has spoken until then, the branch ends with the newest one that nothing answers.
        newest: The ids, the newest last.
        spoken: The ids of what somebody said.
    """
    links = _over_gaps(parents, newest)
    answered = set(links.values())
    silent: set[str] = set()
    for last in (leaf, *(one for one in reversed(newest) if one not in answered)):
        branch: dict[str, None] = {}
        at = last
        while at in links and at not in branch and at not in silent:
            branch[at] = None
            at = links[at]
        if any(one in spoken for one in branch):
            return list(reversed(branch))
        silent.update(branch)
    return []


def _over_gaps(parents: Mapping[str, str], newest: Sequence[str]) -> dict[str, str]:
    """The parents, where one that was left out is that which was said before its first child.

    What the conversation begins with has no parent either. All that come from the same one are
    edits of each other.
    """
    links = dict(parents)
    if not any(parents.values()):
        return dict(zip(newest, ("", *newest), strict=False))
    instead: dict[str, str] = {}
    before = ""
    for one in newest:
        parent = parents[one]
        if parent not in parents:
            links[one] = instead.setdefault(parent, before if instead else parent)
        before = one
    return links
