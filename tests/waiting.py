"""Waiting for what a test caused; the bounds only keep a broken test from hanging.

A look may take a connection, go through all processes of the machine, or hold the loop in which the
services run: the longer the wait, the longer the pauses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

PATIENCE_SECONDS = 180.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.2


async def eventually(
    condition: Callable[[], object | Awaitable[object]],
    what: str = "what was caused",
    *,
    seconds: float = PATIENCE_SECONDS,
) -> None:
    """Wait until `condition` is true, in a loop that goes on."""
    for pause in _pauses(what, seconds):
        found = condition()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return
        await asyncio.sleep(pause)


def wait_until(
    condition: Callable[[], object],
    what: str = "what was caused",
    *,
    seconds: float = PATIENCE_SECONDS,
) -> None:
    """Wait until `condition` is true."""
    for pause in _pauses(what, seconds):
        if condition():
            return
        time.sleep(pause)


def _pauses(what: str, seconds: float) -> Iterator[float]:
    """How long to pause after each look; fails before the first that would be too late."""
    pause, give_up = _FIRST_PAUSE, time.monotonic() + seconds
    while True:
        yield pause
        assert time.monotonic() < give_up, f"waited {seconds:.0f} s in vain: {what}"
        pause = min(1.2 * pause, _LONGEST_PAUSE)
