"""What a search returns, and the interface of every corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hitherto_retrieval.storage.candidate import Candidate, Kind
from hitherto_retrieval.storage.chunks import Chunk
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.statement import Statement
from hitherto_shared.models import Memory, Message, Summary

Item = Memory | Message | Summary | Chunk
"""An item that a search can return."""


class Corpus(Protocol):
    """One kind of item in one search.

    Run the statements of `first`, then those of `second`, which may use the answers of the first
    and may be empty; then read `candidates`.
    """

    @property
    def kind(self) -> Kind:
        """The kind of its items."""
        ...

    def first(self, query: ItemQuery) -> Sequence[Statement[Any]]:
        """Statements that find candidates."""
        ...

    def second(self) -> Sequence[Statement[Any]]:
        """Statements that depend on the answers of `first`."""
        ...

    def candidates(self) -> list[Candidate]:
        """The candidates, each with all features."""
        ...
