"""Cosines of held vectors are added up in one order, whatever else they are computed with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from hitherto_retrieval.storage.cached_vectors import CachedVectors, as_kept
from hitherto_retrieval.usage_counts import QueryUsageCounter
from hitherto_shared.database.pool import Database
from hitherto_shared.embeddings.protocol import EmbeddingBatch

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


@pytest.mark.parametrize("count", [1, 2, 3, 17, 60])
@pytest.mark.parametrize("dimensions", [3, 8, 9, 24, 100, 384])
def test_sums_are_those_of_single_numbers_to_the_last_bit(count: int, dimensions: int) -> None:
    rng = np.random.default_rng(count * dimensions)
    rows, question = made(rng, count, dimensions), asked(rng, dimensions)
    cached = CachedVectors([sent(row) for row in rows], dimensions)
    expected = [float(added(row.astype(np.float32), as_kept(question))) for row in rows]
    assert cached.cosines(range(count), question) == expected
    order = sorted(range(count), key=lambda place: (expected[place], place), reverse=True)
    for wanted in {1, 2, count - 1 or 1, count}:
        assert cached.nearest(np.ones(count, dtype=bool), question, wanted) in (
            order[:wanted],
            # Of no more than are wanted, the order does not matter.
            list(range(count)),
        )


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


@pytest.mark.parametrize("by_item", [False, True])
@pytest.mark.parametrize("was_by_item", [False, True])
def test_a_later_state_has_the_vectors_of_its_rows(was_by_item: bool, by_item: bool) -> None:
    """Those that stayed, moved, came, changed and went, however they are compared."""
    rng = np.random.default_rng(6)
    rows, question = made(rng, 12, 16), asked(rng, 16)
    of = {name: None if n % 5 == 0 else sent(row) for n, (name, row) in _named(rows)}
    before, after = list("abcdefgh"), list("acBehijkl")
    cached = CachedVectors([of.get(name) for name in before], 16, by_item=was_by_item)
    cached.cosines([0], question)
    kept = [before.index(name) if name in before else -1 for name in after]
    missing = [of.get(name) for name in after if name not in before]
    merged = cached.merged(kept, CachedVectors(missing, 16, by_item=by_item))
    anew = CachedVectors([of.get(name) for name in after], 16)
    places = range(len(after))
    assert merged.cosines(places, question) == anew.cosines(places, question)
    assert merged.size == anew.size
    unchanged = CachedVectors([], 16, by_item=by_item)
    again = merged.merged(places, unchanged)
    assert again.cosines(places, question) == anew.cosines(places, question)


def _named(rows: NDArray[np.float16]) -> Sequence[tuple[int, tuple[str, NDArray[np.float16]]]]:
    return list(enumerate(zip("abcdefghijkl", rows, strict=True)))


# The cost of a call that embeds questions of several tenants: divided, and nothing of it lost.


@pytest.mark.parametrize("tokens", [0, 1, 2, 10, 11, 100, 101])
@pytest.mark.parametrize(
    "lengths",
    [
        {"a": 3, "b": 3, "c": 3},
        {"a": 1, "b": 1, "c": 1, "d": 1},
        {"a": 50, "b": 1, "c": 7},
        {"a": 5},
    ],
)
def test_the_shares_of_the_tenants_add_up(
    monkeypatch: pytest.MonkeyPatch, tokens: int, lengths: dict[str, int]
) -> None:
    counter = QueryUsageCounter(cast(Database, None))
    counted: dict[str, Counter[str]] = {}

    def add(tenant_id: str, counts: dict[Any, int]) -> None:
        counted[tenant_id] = Counter({what: number for (_, what), number in counts.items()})

    monkeypatch.setattr(counter._counts, "add", add)
    texts = [(tenant, "x" * length) for tenant, length in lengths.items()]
    counter.embedded("m", EmbeddingBatch([], 1, tokens), texts)
    assert counted.keys() == lengths.keys()
    (calls, all_tokens) = (
        sum(each[what] for each in counted.values()) for what in ("calls", "tokens")
    )
    assert (calls, all_tokens) == (1, tokens)
    assert all(share["tokens"] >= 0 for share in counted.values())
