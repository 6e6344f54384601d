"""How much models may change of what is known, however sure they sound.

What counts are contradictions, achieved goals and updates that change a memory, together: of one
job, and of one user within 24 hours. A job that asks for more changes nothing at all, because a
reply that changes half of what is known is wrong as a whole, and picking some of it would be
picking at random.
"""

from __future__ import annotations

from dataclasses import dataclass

_AT_LEAST = 3
_AT_MOST = 10
_ONE_IN = 5
DAILY_CHANGES = 10
"""What a day allows at least, unless it is set otherwise."""


def allowed_changes(active_count: int) -> int:
    """The changes that one job may make: a fifth of the active memories, from 3 to 10.

    Args:
        active_count: The user's active memories before the job.
    """
    return max(_AT_LEAST, min(_AT_MOST, active_count // _ONE_IN))


@dataclass(frozen=True, slots=True)
class Changes:
    """What models have changed already: memories they closed, and updates they made."""

    closed: int = 0
    updated: int = 0

    @property
    def total(self) -> int:
        """Both together."""
        return self.closed + self.updated


@dataclass(frozen=True, slots=True)
class Room:
    """What a reply may still change.

    Attributes:
        active_count: The user's active memories now.
        job: What earlier calls of the same job changed.
        day: What all jobs changed for this user in the last 24 hours, this one included.
        daily: What a day allows at least; a fifth of the active memories is allowed in any case.
    """

    active_count: int
    job: Changes = Changes()
    day: Changes = Changes()
    daily: int = DAILY_CHANGES

    def refuses(self, wanted: int) -> str | None:
        """Why a reply may not make so many changes, as the key of a count; None if it may."""
        if not wanted:
            return None
        if self.job.total + wanted > allowed_changes(self.active_count + self.job.closed):
            return "refused_over_cap"
        by_share = (self.active_count + self.day.closed) // _ONE_IN
        if self.day.total + wanted > max(self.daily, by_share):
            return "refused_over_daily_cap"
        return None
