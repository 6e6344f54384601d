"""How long a call may take: the caller's deadline, and no longer than the service allows."""

from __future__ import annotations

from typing import Any, cast

from hitherto_shared.rpc.call import seconds_left


def test_the_shorter_of_both_limits_of_time_counts() -> None:
    class Remaining:
        def __init__(self, seconds: float | None) -> None:
            self.seconds = seconds

        def time_remaining(self) -> float | None:
            return self.seconds

    for deadline, left in [(None, 30.0), (3_600.0, 30.0), (0.5, 0.5), (-1.0, 0.0)]:
        assert seconds_left(cast(Any, Remaining(deadline)), 30.0) == left, deadline
