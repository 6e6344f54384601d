"""What encryption costs: the same searches and saves of users with and without it, in turns.

For each size there are two users with the same memories, one of whom encrypts. The offline embedder
costs next to nothing: with a real one, which both users need alike, the ratios come nearer to 1.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator

from benchmarks.command import Benchmark, add_counts, counting, main, progress
from benchmarks.report import BenchmarkResult, FigureTable, ResultPart
from benchmarks.serving import nothing_left, serving, temporary_place
from benchmarks.words import sentence
from hitherto_client import AsyncHitherto
from hitherto_client.inputs import MemoryInput
from hitherto_client.words import MemoryType

SIZES = (0, 100, 1_000, 2_000)
"""Sensitive memories of a user; the last is how many a search opens."""
BESIDE = 100
"""Memories beside them that are not sensitive."""
_KINDS = ("clear", "sealed")
_WORDS = 14
_ASKED = 5
_WARM_UP = 5
_SEED = 11
_PATIENCE_SECONDS = 300.0
_KEY = "62" * 32
_TO_SEAL = "SELECT count(*) FROM users WHERE to_seal > 0"


async def measure(given: argparse.Namespace) -> BenchmarkResult:
    """Fill, encrypt, and ask of every size.

    Raises:
        TimeoutError: What is there was not sealed within five minutes.
    """
    figures: dict[str, float] = {}
    rows = []
    async with temporary_place() as place, serving(place, encryption_key=_KEY) as client:
        filled = counting("saving", len(_KINDS) * len(SIZES))
        for size in SIZES:
            for kind in _KINDS:
                await client.import_memories(_memories(f"{kind}-{size}", size))
                filled()
        progress("sealing", 0, 1)
        for size in SIZES:
            await client.update_user_settings(f"sealed-{size}", encrypt_sensitive=True)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await nothing_left(place.conninfo, _TO_SEAL)
        measured = counting("measuring", len(SIZES))
        for size in SIZES:
            cells = [f"{size:,}"]
            for name, (clear, sealed) in (await _of_size(client, size, given)).items():
                figures |= {
                    f"{name}, clear, {size} sensitive": clear,
                    f"{name}, sealed, {size} sensitive": sealed,
                    f"{name}, ratio, {size} sensitive": sealed / clear,
                }
                cells += [f"{clear:.1f} ms", f"{sealed:.1f} ms", f"{sealed / clear:.2f}"]
            rows.append(cells)
            measured()
    title = "Encryption: sealed by clear"
    of_each = [f"{name}, {of}" for name in ("search", "save") for of in (*_KINDS, "ratio")]
    table = FigureTable(title, ("sensitive memories", *of_each), rows, left=0)
    return BenchmarkResult("encryption", [ResultPart(title, figures, [table])])


async def _of_size(
    client: AsyncHitherto, size: int, given: argparse.Namespace
) -> dict[str, tuple[float, float]]:
    """Median milliseconds of a search and of a save, clear and sealed."""
    rng = random.Random(f"questions/{size}")
    sensitive, others = _texts(size)
    questions = []
    for number in range(given.searches + _WARM_UP):
        known = rng.choice(sensitive if sensitive and number % 2 else others)
        questions.append(" ".join(rng.sample(known.rstrip(".").split(), _ASKED)))
    rng = random.Random(f"saves/{size}")
    fresh = [sentence(rng, _WORDS) for _ in range(given.saves + _WARM_UP)]

    async def search(kind: str, number: int) -> object:
        return await client.search(f"{kind}-{size}", questions[number], limit=10)

    async def save(kind: str, number: int) -> object:
        return await client.save_memory(f"{kind}-{size}", fresh[number], type="personal")

    return {
        "search": await _alternate(search, given.searches),
        "save": await _alternate(save, given.saves),
    }


async def _alternate(
    call: Callable[[str, int], Awaitable[object]], times: int
) -> tuple[float, float]:
    """The median milliseconds of a call for each of `_KINDS`, made in turn."""
    found: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for number in range(times + _WARM_UP):
        for kind in _KINDS if number % 2 else reversed(_KINDS):
            begun = time.perf_counter()
            await call(kind, number)
            if number >= _WARM_UP:
                found[kind].append((time.perf_counter() - begun) * 1000)
    clear, sealed = (statistics.median(found[kind]) for kind in _KINDS)
    return clear, sealed


def _texts(size: int) -> tuple[list[str], list[str]]:
    """What is remembered of each of the two users of a size: sensitive, and not."""
    rng = random.Random(f"{_SEED}/{size}")
    made = [sentence(rng, _WORDS) for _ in range(size + BESIDE)]
    return made[:size], made[size:]


def _memories(user: str, size: int) -> Iterator[MemoryInput]:
    kinds: tuple[MemoryType, MemoryType] = ("personal", "fact")
    for kind, texts in zip(kinds, _texts(size), strict=True):
        for text in texts:
            yield {"user_id": user, "content": text, "type": kind}


BENCHMARK = Benchmark(
    name="encryption",
    description="Measure what encrypting sensitive text costs.",
    arguments=lambda parser: add_counts(
        parser, searches=(60, "of each user"), saves=(30, "of each user")
    ),
    measure=measure,
)

if __name__ == "__main__":
    main(BENCHMARK)
