"""Cosines of held vectors are added up in one order, whatever else they are computed with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hitherto_retrieval.storage.cached_vectors import CachedVectors, as_kept

LANES = 8


def made(rng: np.random.Generator, count: int, dimensions: int) -> NDArray[np.float16]:
    numbers = rng.standard_normal((count, dimensions))
    found: NDArray[np.float16] = (numbers / np.linalg.norm(numbers, axis=1, keepdims=True)).astype(
        np.float16
    )
    return found


def asked(rng: np.random.Generator, dimensions: int) -> NDArray[np.float32]:
    return rng.standard_normal(dimensions).astype(np.float32)


def sent(vector: NDArray[np.float16]) -> bytes:
    """As pgvector sends a vector of half floats."""
    return len(vector).to_bytes(2) + bytes(2) + vector.astype(">f2").tobytes()


def added(one: NDArray[np.float32], other: NDArray[np.float32]) -> np.float32:
    """Number by number: in eight lanes, these by halves, then the rest."""
    whole = len(one) // LANES * LANES
    lanes = np.zeros(LANES, dtype=np.float32)
    for first in range(0, whole, LANES):
        for lane in range(LANES):
            lanes[lane] += one[first + lane] * other[first + lane]
    for half in (4, 2, 1):
        lanes = lanes[:half] + lanes[half:]
    found: np.float32 = lanes[0]
    for place in range(whole, len(one)):
        found += one[place] * other[place]
    return found


def test_sums_are_those_of_single_numbers_to_the_last_bit() -> None:
    for count in [1, 2, 3, 17, 60]:
        for dimensions in [3, 8, 9, 24, 100, 384]:
            rng = np.random.default_rng(count * dimensions)
            rows, question = made(rng, count, dimensions), asked(rng, dimensions)
            cached = CachedVectors([sent(row) for row in rows], dimensions)
            expected = [float(added(row.astype(np.float32), as_kept(question))) for row in rows]
            assert cached.cosines(range(count), question) == expected, (count, dimensions)
            order = sorted(range(count), key=lambda place: (expected[place], place), reverse=True)
            for wanted in {1, 2, count - 1 or 1, count}:
                assert cached.nearest(np.ones(count, dtype=bool), question, wanted) in (
                    order[:wanted],
                    # Of no more than are wanted, the order does not matter.
                    list(range(count)),
                ), (count, dimensions)


def test_some_of_many_have_the_cosines_that_all_have() -> None:
    """With questions in turn, and items without a vector; and the same are the nearest."""
    rng = np.random.default_rng(5)
    rows = made(rng, 90, 40)
    # Equals, and vectors that differ in the last digit only.
    rows[40:50] = rows[30]
    rows[50:55, 0] = np.nextafter(rows[50:55, 0], np.float16(1))
    rows[60:65, 1:] = rows[50:55, 1:]
    stored = [None if n % 7 == 0 else sent(row) for n, row in enumerate(rows)]
    expected = CachedVectors(stored, 40)
    several = CachedVectors(stored, 40, by_item=True)
    for _ in range(20):
        question = asked(rng, 40)
        places = rng.choice(90, rng.integers(1, 9), replace=False).tolist()
        assert several.cosines(places, question) == expected.cosines(places, question)
        assert [several.cosines([place], question) for place in places] == [
            expected.cosines([place], question) for place in places
        ]
        allowed = rng.random(90) < 0.8
        for wanted in (1, 5, 80):
            assert set(several.nearest(allowed, question, wanted)) == set(
                expected.nearest(allowed, question, wanted)
            )
