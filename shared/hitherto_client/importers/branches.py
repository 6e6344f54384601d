"""The branch of a conversation that the user saw last, where edits and retries make others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def last_branch(parents: Mapping[str, str], leaf: str, newest: Sequence[str]) -> list[str]:
    """The ids of one branch, from its beginning.

    Args:
        parents: The parent of each id; one that is no id itself begins a conversation.
        leaf: The last id of the branch, as the export names it. If it is none of the ids, the
            branch ends with the newest one that nothing answers.
        newest: The ids, the newest last.
    """
    if leaf not in parents:
        answered = set(parents.values())
        leaf = next((one for one in reversed(newest) if one not in answered), "")
    branch: dict[str, None] = {}
    while leaf in parents and leaf not in branch:
        branch[leaf] = None
        leaf = parents[leaf]
    return list(reversed(branch))
