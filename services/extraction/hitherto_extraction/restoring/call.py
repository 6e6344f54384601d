"""One import: who calls, for how long, and what it has done."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from hitherto_extraction.once import UserCall
from hitherto_shared.consistency import Position
from hitherto_shared.errors import TooLate

_GROUP_SECONDS = 10.0


@dataclass(slots=True)
class Imported:
    """What an import has done: numbers of records by table, and the point in time after it."""

    stored: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class ImportCall(UserCall):
    """The call of an import until `ends` of the event loop's clock; its key has no body yet."""

    ends: float

    def left(self) -> float:
        """Seconds for the next transaction.

        Raises:
            TooLate: None.
        """
        seconds = self.ends - asyncio.get_running_loop().time()
        if seconds <= 0:
            raise TooLate(
                "the import did not end in time; what was stored stays, call ImportUser again "
                "from the start of the file",
                reason="DEADLINE_EXCEEDED",
            )
        return min(seconds, _GROUP_SECONDS)
