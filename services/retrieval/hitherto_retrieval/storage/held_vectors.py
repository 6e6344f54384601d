"""Vectors held in this process, compared as pgvector compares them.

Cosines are the database's to the last bit where pgvector uses the processor's half-precision
instructions: products of half floats are exact, and they are added in its order. Sums in another
order differ by 1e-8, which decides among vectors that are equally near, and about those that are
exactly 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitherto_retrieval.storage.held_stamps import Comparison

_LANES = 8
"""How many products pgvector adds side by side."""
_DOUBT = 1e-6
"""By more than this no two ways to add up a cosine differ."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER = np.iinfo(np.int64).max

Vectors = NDArray[np.float32]
Signs = NDArray[np.uint64]

_NUMBERS = (
    np.arange(1 << 16, dtype=">u2")
    .view(">f2")
    .astype(np.float32)[np.arange(1 << 16, dtype=">u2").view(np.uint16).argsort()]
)
"""What each two bytes mean, by the number that they are to this processor: twice as quick."""


class HeldVectors:
    """A row for each item; never changed.

    Args:
        sent: As pgvector sends them; None for an item without.
        dimensions: Of each.
    """

    def __init__(self, sent: Sequence[bytes | None], dimensions: int) -> None:
        self.has = np.asarray([each is not None for each in sent], dtype=bool)
        # Two bytes for the dimensions and two that are not used come first.
        halves = np.frombuffer(b"".join(each for each in sent if each is not None), np.uint16)
        rows = _NUMBERS.take(halves.reshape(-1, 2 + dimensions)[:, 2:])
        if not self.has.all():
            known, rows = rows, np.zeros((len(sent), dimensions), dtype=np.float32)
            rows[self.has] = known
        self._rows: Vectors = rows

    @property
    def size(self) -> int:
        """How many bytes they take."""
        return self._rows.nbytes

    def merged(self, compared: Comparison, read: HeldVectors) -> HeldVectors:
        """The vectors of a later state.

        Args:
            compared: The rows of that state, compared with those that these vectors belong to.
            read: The vectors of the rows that had to be read.
        """
        if compared.nothing_changed:
            return self
        places = np.asarray(compared.places, dtype=np.int64)
        kept = places >= 0
        made = copy(self)
        made._rows = np.empty((len(places), self._rows.shape[1]), dtype=np.float32)
        made._rows[kept], made._rows[~kept] = self._rows[places[kept]], read._rows
        made.has = np.empty(len(places), dtype=bool)
        made.has[kept], made.has[~kept] = self.has[places[kept]], read.has
        return made

    def nearest(self, allowed: NDArray[np.bool_], vector: Vectors, wanted: int) -> list[int]:
        """The places of the nearest of those allowed; of equals the last place first."""
        near = np.flatnonzero(allowed & self.has)
        if len(near) > wanted:
            # BLAS would add up equal rows unequally, and its threads cost more than they gain.
            about = np.einsum("ij,j->i", self._rows, vector)[near]
            least = np.partition(about, -wanted)[-wanted]
            near = near[about >= least - _DOUBT]
        if len(near) > wanted:
            exact = _added_as_pgvector_adds(self._rows[near], vector)
            near = near[np.lexsort((-near, -exact))][:wanted]
        found: list[int] = near.tolist()
        return found

    def signs(self) -> Signs:
        """The signs of all numbers, as pgvector's `binary_quantize` keeps them."""
        return _signs(self._rows)

    def nearest_by_signs(self, signs: Signs, vector: Vectors, wanted: int) -> NDArray[np.int64]:
        """The places of those that share the most signs with a vector; of equals the last first.

        Args:
            signs: What `signs` returned.
            vector: The vector.
            wanted: How many at most.
        """
        near = np.flatnonzero(self.has)
        differing = np.bitwise_count(signs[near] ^ _signs(vector)).sum(axis=1, dtype=np.int64)
        return near[np.lexsort((-near, differing))][:wanted]

    def cosines(self, places: Sequence[int], vector: Vectors | None) -> list[float | None]:
        """Those of the rows at `places`; None where there is no vector."""
        if vector is None or not len(places):
            return [None] * len(places)
        these = np.asarray(places, dtype=np.int64)
        exact = _added_as_pgvector_adds(self._rows[these], vector).tolist()
        return [
            cosine if known else None
            for cosine, known in zip(exact, self.has[these].tolist(), strict=True)
        ]


def _signs(vectors: Vectors) -> Signs:
    """A bit for each number, in whole words."""
    bits = np.packbits(vectors > 0, axis=-1)
    missing = -bits.shape[-1] % 8
    padding = [(0, 0)] * (bits.ndim - 1) + [(0, missing)]
    return np.ascontiguousarray(np.pad(bits, padding)).view(np.uint64)


def as_kept(vector: Sequence[float] | NDArray[Any]) -> Vectors:
    """A question's vector with the precision in which it is compared."""
    return np.asarray(vector).astype(np.float16).astype(np.float32)


def since_epoch(at: datetime) -> int:
    """A moment in microseconds."""
    return (at - _EPOCH) // _MICROSECOND


def microseconds(moments: Sequence[datetime | None]) -> NDArray[np.int64]:
    """Moments as numbers; None is later than all."""
    return np.asarray([_NEVER if at is None else since_epoch(at) for at in moments], dtype=np.int64)


def _added_as_pgvector_adds(rows: Vectors, vector: Vectors) -> Vectors:
    """Inner products: summed in eight lanes, these by halves, then what is left over."""
    count, dimensions = rows.shape
    blocks = dimensions // _LANES
    whole = blocks * _LANES
    lanes = rows[:, :whole].reshape(count, blocks, _LANES).transpose(1, 0, 2)
    products = np.multiply(lanes, vector[:whole].reshape(blocks, 1, _LANES), order="C")
    sums: Vectors = products.sum(axis=0, dtype=np.float32)
    sums = sums[:, :4] + sums[:, 4:]
    sums = sums[:, :2] + sums[:, 2:]
    found: Vectors = sums[:, 0] + sums[:, 1]
    for place in range(whole, dimensions):
        found += rows[:, place] * vector[place]
    return found
