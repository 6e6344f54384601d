"""Limits how much models may change of what is known, whatever their confidence.

Each job has a limit for what ends, one for updates and one for requests to forget; a fourth holds
for all changes of one user within 24 hours. A reply above a limit ends and updates nothing, because
one that changes half of what is known is wrong as a whole, and a selection from it would be random;
only what would be lost, with words of its own, is taken out of it (`closures.unlinked`).
What the user asks to forget does not depend on what else a reply changes.
"""

from __future__ import annotations

from dataclasses import dataclass

_AT_LEAST = 5
_AT_MOST = 20
_ONE_IN = 4
DAILY_CHANGES = 20
"""Default minimum of changes per day."""


def allowed_changes(active_count: int) -> int:
    """The limit on each kind of a job's changes: a quarter of those active before, from 5 to 20."""
    return max(_AT_LEAST, min(_AT_MOST, active_count // _ONE_IN))


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes that models have already made: memories closed, updates, and memories forgotten."""

    closed: int = 0
    updated: int = 0
    forgotten: int = 0

    @property
    def total(self) -> int:
        """All together."""
        return self.closed + self.updated + self.forgotten


@dataclass(frozen=True, slots=True)
class ChangeAllowance:
    """The changes that a reply may still make.

    Attributes:
        active_count: The user's active memories now.
        job: Changes by earlier calls of the same job.
        day: Changes by all jobs for this user in the last 24 hours, this one included.
        daily: Minimum of changes per day; a quarter of the active memories is allowed in any case.
    """

    active_count: int
    job: Changes = Changes()
    day: Changes = Changes()
    daily: int = DAILY_CHANGES

    def refuses(self, endings: int, updates: int = 0, requests: int = 0) -> str | None:
        """Why a reply may not make this many changes, as the key of a count; None if it may."""
        if not endings + updates + requests:
            return None
        job, day = self.job, self.day
        most = allowed_changes(self.active_count + job.closed + job.forgotten)
        wanted = (job.closed + endings, job.updated + updates, job.forgotten + requests)
        if max(wanted) > most:
            return "refused_over_cap"
        by_share = (self.active_count + day.closed + day.forgotten) // _ONE_IN
        if day.total + endings + updates + requests > max(self.daily, by_share):
            return "refused_over_daily_cap"
        return None
