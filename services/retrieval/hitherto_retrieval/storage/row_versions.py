"""Which rows a snapshot keeps of an earlier one, and where that one was read.

A stamp is the key of a row with the transactions that wrote it and its vectors. Within one run of a
server, a transaction number stands for one transaction, and what it wrote never changes: a row with
an equal stamp is the same row. A row that was deleted has no stamp any more. Another server, or one
that was started again, may have lost transactions and given their numbers to others, so nothing is
kept of what was read there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

from hitherto_retrieval.storage.statement import Statement

_SERVER = """
SELECT pg_postmaster_start_time(), inet_server_addr()::text, inet_server_port(),
       (SELECT oid FROM pg_database WHERE datname = current_database())
"""

_READ_AT_ONCE = 250
"""Rows with vectors whose arrival keeps the event loop busy for some 15 ms."""

Server = tuple[Any, ...]
Row = TypeVar("Row")


def server() -> Statement[Server]:
    """The run of the server that answers, and the database in it."""
    return Statement(_SERVER, {}, lambda rows: rows[0])


class Comparison:
    """The rows of a state, compared with those of an earlier state.

    Args:
        now: The stamps of all rows, in order.
        before: Those of the earlier state; empty if nothing can be kept of it.

    Attributes:
        places: For each row, its place in the earlier state; -1 if it must be read.
    """

    def __init__(self, now: Sequence[Hashable], before: Sequence[Hashable]) -> None:
        cached = {stamp: place for place, stamp in enumerate(before)}
        self.places: Sequence[int] = [cached.get(stamp, -1) for stamp in now]
        self._earlier = len(before)

    @property
    def nothing_changed(self) -> bool:
        """Whether both states have the same rows in the same order."""
        return self._earlier == len(self.places) and all(
            place == number for number, place in enumerate(self.places)
        )

    def to_read(self, keys: Sequence[Row]) -> list[Row]:
        """Those of all keys whose rows must be read, in order."""
        return [key for key, place in zip(keys, self.places, strict=True) if place < 0]

    def merged(self, before: Sequence[Row], read: Sequence[Row]) -> list[Row]:
        """All rows: the kept ones of the earlier state, and those that were read."""
        missing = iter(read)
        return [before[place] if place >= 0 else next(missing) for place in self.places]


def parts(keys: Sequence[Row]) -> list[Sequence[Row]]:
    """Keys in groups whose rows are read together."""
    return [keys[start : start + _READ_AT_ONCE] for start in range(0, len(keys), _READ_AT_ONCE)]
