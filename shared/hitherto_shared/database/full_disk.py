"""When a statement of this process last found the disk of the database full."""

from __future__ import annotations

import time


class FullDisk:
    """Remembers the moment, by the monotonic clock."""

    found_at = float("-inf")


last = FullDisk()


def note_full() -> None:
    """Note that a statement found no room now."""
    last.found_at = time.monotonic()
