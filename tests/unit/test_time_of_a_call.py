"""How long a call may take: the caller's deadline, and no longer than the service allows."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hitherto_shared.rpc.call import Context, seconds_left


class Remaining:
    """A call with so many seconds until its deadline."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def time_remaining(self) -> float | None:
        return self._seconds


@pytest.mark.parametrize(
    ("deadline", "left"), [(None, 30.0), (3_600.0, 30.0), (30.0, 30.0), (0.5, 0.5), (-1.0, 0.0)]
)
def test_the_shorter_of_both_limits_counts(deadline: float | None, left: float) -> None:
    assert seconds_left(cast(Context, cast(Any, Remaining(deadline))), 30.0) == left
