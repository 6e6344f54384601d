"""Which rows a snapshot keeps of an earlier one, and where that one was read.

A stamp is the key of a row with the transactions that wrote it and its vectors. Within one run of a
server, a transaction number stands for one transaction, and what it wrote never changes: a row with
an equal stamp is the same row. A row that was deleted has no stamp any more. Another server, or one
that was started again, may have lost transactions and given their numbers to others, so nothing is
kept of what was read there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

from hitherto_retrieval.storage.cached_vectors import CachedVectors
from hitherto_retrieval.storage.statement import Rows, Statement

_SERVER = """
SELECT pg_postmaster_start_time(), inet_server_addr()::text, inet_server_port(),
       (SELECT oid FROM pg_database WHERE datname = current_database())
"""

_READ_AT_ONCE = 250
"""Rows with vectors whose arrival keeps the event loop busy for some 15 ms."""

Server = tuple[Any, ...]
Stamp = TypeVar("Stamp", bound=Hashable)
Row = TypeVar("Row")


def server() -> Statement[Server]:
    """The run of the server that answers, and the database in it."""
    return Statement(_SERVER, {}, lambda rows: rows[0])


class Refresh(Generic[Stamp]):
    """The rows of a state in order, of which those are read that an earlier state lacks.

    Args:
        stamps: The stamps of all rows.
        earlier: Those of the earlier state; empty if nothing can be kept of it.
        read: Reads the rows of some stamps.

    Attributes:
        statements: Statements to run one after the other, none of which takes long.
    """

    def __init__(
        self,
        stamps: Sequence[Stamp],
        earlier: Sequence[Stamp],
        read: Callable[[Sequence[Stamp]], Statement[Rows]],
    ) -> None:
        cached = {stamp: place for place, stamp in enumerate(earlier)}
        # For each row its place in the earlier state; -1 if it must be read.
        self._places: Sequence[int] = [cached.get(stamp, -1) for stamp in stamps]
        changed = [stamp for stamp, at in zip(stamps, self._places, strict=True) if at < 0]
        starts = range(0, len(changed), _READ_AT_ONCE)
        self.statements = [read(changed[start : start + _READ_AT_ONCE]) for start in starts]

    def rows(
        self, earlier: Sequence[Row], width: int, made: Callable[[Sequence[Any]], Row]
    ) -> list[Row]:
        """All rows, `made` of the first columns; `earlier` are the rows of the earlier state."""
        read = (made(row[:width]) for row in self._read())
        return [earlier[place] if place >= 0 else next(read) for place in self._places]

    def vectors(
        self, earlier: CachedVectors | None, column: int, dimensions: int, *, by_item: bool = False
    ) -> CachedVectors:
        """The vectors of all rows, which are read from a column; see `CachedVectors`."""
        sent = [row[column] for row in self._read()]
        read = CachedVectors(sent, dimensions, by_item=by_item)
        return read if earlier is None else earlier.merged(self._places, read)

    def _read(self) -> Iterator[tuple[Any, ...]]:
        return chain.from_iterable(statement.answer for statement in self.statements)
