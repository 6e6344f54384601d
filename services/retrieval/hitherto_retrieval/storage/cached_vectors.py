"""Vectors cached in this process, compared as pgvector compares them.

Cosines are the database's to the last bit where pgvector uses the processor's half-precision
instructions: products of half floats are exact, and they are added in its order. Sums in another
order differ by 1e-8, which decides among vectors that are equally near, and about those that are
exactly 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_LANES = 8
"""How many products pgvector adds side by side."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Vectors = NDArray[np.float32]
Signs = NDArray[np.uint64]


class _Compared(NamedTuple):
    """The cosines of a question, as far as they are known."""

    question: Vectors
    cosines: Vectors
    known: NDArray[np.bool_]


class CachedVectors:
    """A vector for each item; never changed.

    Args:
        sent: As pgvector sends them; None for an item without.
        dimensions: Of each.
        by_item: True to compare only those that are asked for, which pays off if they are few of
            many; False to compare all at once.
    """

    def __init__(
        self, sent: Sequence[bytes | None], dimensions: int, *, by_item: bool = False
    ) -> None:
        self.has = np.asarray([each is not None for each in sent], dtype=bool)
        # Two bytes for the dimensions and two that are not used come first.
        halves = np.frombuffer(b"".join(each for each in sent if each is not None), ">f2")
        # A row for each dimension, so that the sums of all items grow side by side.
        self._columns: Vectors = np.zeros(
            (dimensions, len(sent)), dtype=np.float32, order="F" if by_item else "C"
        )
        self._columns[:, self.has] = halves.reshape(-1, 2 + dimensions)[:, 2:].T
        self._by_item = by_item
        # With the last question: the steps of a search ask one after the other.
        self._compared: _Compared | None = None

    @property
    def size(self) -> int:
        """How many bytes they take."""
        return self._columns.nbytes

    def nearest(self, allowed: NDArray[np.bool_], vector: Vectors, wanted: int) -> list[int]:
        """The places of the nearest of those allowed; of equals the last place first."""
        near = np.flatnonzero(allowed & self.has)
        if self._by_item and len(near) > wanted:
            near = self._promising(near, vector, wanted)
        if len(near) > wanted:
            cosines = self._against(near, vector)
            sufficient = cosines >= np.partition(cosines, -wanted)[-wanted]
            near, cosines = near[sufficient], cosines[sufficient]
            near = near[np.lexsort((-near, -cosines))][:wanted]
        found: list[int] = near.tolist()
        return found

    def signs(self) -> Signs:
        """The signs of all numbers, as pgvector's `binary_quantize` keeps them."""
        return _signs(self._columns.T)

    def nearest_by_signs(self, signs: Signs, vector: Vectors, wanted: int) -> NDArray[np.int64]:
        """The places of those that share the most signs with a vector; of equals the last first."""
        differing = np.einsum(
            "nw->n", np.bitwise_count(signs ^ _signs(as_kept(vector))), dtype=np.uint16
        )
        # One number for the order: fewer signs first, then later places.
        last = len(signs) - 1
        order = (differing * np.int64(len(signs)) + np.arange(last, -1, -1))[self.has]
        if len(order) > wanted:
            order = np.partition(order, wanted - 1)[:wanted]
        found: NDArray[np.int64] = last - order % len(signs)
        return found

    def cosines(self, places: Sequence[int], vector: Vectors | None) -> list[float | None]:
        """Those of the items at `places`; None where there is no vector."""
        if vector is None or not len(places):
            return [None] * len(places)
        these = np.asarray(places, dtype=np.int64)
        cosines = self._against(these, vector).tolist()
        return [
            cosine if known else None
            for cosine, known in zip(cosines, self.has[these].tolist(), strict=True)
        ]

    def _against(self, these: NDArray[np.int64], vector: Vectors) -> Vectors:
        """The cosines of some items, kept for the next step of the same search."""
        compared = self._compared
        if compared is None or compared.question is not vector:
            count = len(self.has)
            compared = _Compared(vector, np.empty(count, np.float32), np.zeros(count, dtype=bool))
            if not self._by_item:
                compared.cosines[:] = _added_as_pgvector_adds(self._columns, as_kept(vector))
                compared.known[:] = True
            self._compared = compared
        missing = these[~compared.known[these]]
        if len(missing):
            columns = self._columns.T[missing].T
            compared.cosines[missing] = _added_as_pgvector_adds(columns, as_kept(vector))
            compared.known[missing] = True
        return compared.cosines[these]

    def _promising(
        self, these: NDArray[np.int64], vector: Vectors, wanted: int
    ) -> NDArray[np.int64]:
        """Those that may be among the nearest, by sums in any order, which are quicker."""
        compared, items = as_kept(vector), self._columns.T
        if 2 * len(these) > len(items):
            # Sums that nobody asked for take less than a copy of most rows.
            about = np.einsum("nd,d->n", items, compared)[these]
        else:
            about = np.einsum("nd,d->n", items[these], compared)
        # Two sums with a unit vector differ by less than this, whatever their order.
        error = 2 * len(compared) * np.finfo(np.float32).eps * np.linalg.norm(compared)
        found: NDArray[np.int64] = these[about >= np.partition(about, -wanted)[-wanted] - error]
        return found


def as_kept(vector: Sequence[float] | NDArray[Any]) -> Vectors:
    """A question's vector with the precision in which it is compared."""
    return np.asarray(vector).astype(np.float16).astype(np.float32)


def since_epoch(at: datetime) -> int:
    """A moment in microseconds."""
    return (at - _EPOCH) // _MICROSECOND


def microseconds(moments: Sequence[datetime]) -> NDArray[np.int64]:
    """Moments as numbers."""
    return np.asarray([since_epoch(at) for at in moments], dtype=np.int64)


def _signs(vectors: Vectors) -> Signs:
    """A bit for each number, in whole words."""
    bits = np.packbits(vectors > 0, axis=-1)
    missing = -bits.shape[-1] % 8
    padding = [(0, 0)] * (bits.ndim - 1) + [(0, missing)]
    return np.ascontiguousarray(np.pad(bits, padding)).view(np.uint64)


def _added_as_pgvector_adds(columns: Vectors, vector: Vectors) -> Vectors:
    """Inner products: summed in eight lanes, these by halves, then what is left over.

    Each lane is added up from its first block on, for all items of `columns` side by side. That is
    as quick as a sum in any order. BLAS would add up equal rows unequally, and its threads cost
    more than they gain.
    """
    dimensions, count = columns.shape
    blocks = dimensions // _LANES
    whole = blocks * _LANES
    if count == 1:
        # Without items to walk along, `einsum` would walk along the blocks, in an order of its own.
        columns = np.repeat(columns, 2, axis=1)
    lanes = columns[:whole].reshape(blocks, _LANES, columns.shape[1])
    sums: Vectors = np.einsum("bln,bl->ln", lanes, vector[:whole].reshape(blocks, _LANES))
    sums = sums[:4] + sums[4:]
    sums = sums[:2] + sums[2:]
    found: Vectors = sums[0] + sums[1]
    for place in range(whole, dimensions):
        found += columns[place] * vector[place]
    return found[:count]
