"""How much one job may take away, however sure the model sounds."""

from __future__ import annotations

_AT_LEAST = 3
_AT_MOST = 10
_ONE_IN = 5


def allowed_status_changes(active_count: int) -> int:
    """The status changes (contradicted, achieved, superseded) that one job may make.

    A fifth of the active memories, at least 3 and at most 10. A job that asks for more changes none
    at all, because a reply that contradicts half of what is known is wrong as a whole, and picking
    some of it would be picking at random.

    Args:
        active_count: The user's active memories before the job.
    """
    return max(_AT_LEAST, min(_AT_MOST, active_count // _ONE_IN))
