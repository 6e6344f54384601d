"""Whether work on a text takes time in proportion to its length, measured."""

from __future__ import annotations

import time
from collections.abc import Callable

LONG = 4096
"""Characters of the long text: most of the time of these checks is spent on it."""

_FACTOR = 8
_RUNS = 5
_ROUNDS = 3
_MOST = 22.0
"""Eight times the text: linear work takes 8 times as long, quadratic 64 times. Between them."""

_FREE_SECONDS = 0.002
"""What takes less than this for the long text cannot be judged, and hurts nobody."""

_SHORT_SECONDS = 0.25
"""No linear work takes this long for the short text; the long one is then not tried."""


def filled(piece: str, length: int) -> str:
    """`piece` again and again, `length` characters in all."""
    return (piece * (length // len(piece) + 1))[:length]


def cpu_seconds(work: Callable[[], object], runs: int = _RUNS) -> float:
    """The least CPU time of this thread for `work`, of some runs."""
    best = float("inf")
    for _ in range(runs):
        began = time.thread_time()
        work()
        best = min(best, time.thread_time() - began)
    return best


def more_than_linear(
    work: Callable[[str], object], texts: Callable[[int], str], length: int = LONG
) -> str | None:
    """What was measured if `work` grows clearly faster than its text, else None.

    Args:
        work: What is done with a text.
        texts: The text of a length.
        length: Characters of the long text; the short one has an eighth.
    """
    long, short = texts(length), texts(length // _FACTOR)
    # The short one first: it tells of exponential and cubic work before that hangs the test.
    before = cpu_seconds(lambda: work(short), runs=2)
    if before > _SHORT_SECONDS:
        return f"{len(short)} characters take {before:.2f} s"
    after = cpu_seconds(lambda: work(long), runs=1)
    if after < _FREE_SECONDS or after < _MOST * before:
        return None
    # A busy machine inflates single measurements: look again before judging.
    for _ in range(_ROUNDS):
        before = min(before, cpu_seconds(lambda: work(short)))
        after = min(after, cpu_seconds(lambda: work(long), runs=3 if after < 1.0 else 1))
        if after < _FREE_SECONDS or after < _MOST * before:
            return None
    # An expression with a limit may begin to work between the two lengths. From there on it is
    # linear, or it is not.
    if after < _SHORT_SECONDS:
        longest = texts(_FACTOR * length)
        if cpu_seconds(lambda: work(longest), runs=2) < _MOST * after:
            return None
    return (
        f"{len(short)} characters take {before * 1000:.2f} ms, "
        f"{len(long)} take {after * 1000:.2f} ms"
    )
