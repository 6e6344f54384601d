"""What encryption costs: the same searches and saves of users with and without it.

    python -m benchmarks.encryption [--json FILE] [--searches 60] [--saves 30]

For each size there are two users with the same memories: a hundred that are not sensitive, and as
many sensitive ones as the size says. One of the two encrypts. Questions and saves alternate between
them, so that both meet the same machine. Both services, the caller and an embedded Postgres run on
this machine, with the offline embedder, which costs next to nothing: with a real one, which both
users need alike, the ratios come nearer to 1.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.command import Benchmark, Progress, add_counts, counting, main
from benchmarks.report import BenchmarkResult, FigureTable, ResultPart
from benchmarks.serving import BenchmarkDatabase, nothing_left, serving, temporary_place
from benchmarks.words import sentence
from hitherto_client import AsyncHitherto
from hitherto_client.inputs import MemoryInput

SIZES = (0, 100, 1_000, 2_000)
"""Sensitive memories of a user; the last is how many a search opens."""
BESIDE = 100
"""Memories beside them that are not sensitive."""
COLUMNS = (
    "search, clear",
    "search, sealed",
    "search, ratio",
    "save, clear",
    "save, sealed",
    "save, ratio",
)
"""The figures of a size; times are medians in milliseconds."""
_WORDS = 14
_ASKED = 5
_WARM_UP = 5
_SEED = 11
_PATIENCE_SECONDS = 300.0
_KEY = "62" * 32
_TO_SEAL = "SELECT count(*) FROM users WHERE to_seal > 0"


def texts(size: int) -> tuple[list[str], list[str]]:
    """What is remembered of each of the two users of a size: sensitive, and not."""
    rng = random.Random(f"{_SEED}/{size}")
    made = [sentence(rng, _WORDS) for _ in range(size + BESIDE)]
    return made[:size], made[size:]


def memory(user: str, content: str, *, sensitive: bool) -> MemoryInput:
    """One memory to save."""
    return {"user_id": user, "content": content, "type": "personal" if sensitive else "fact"}


async def fill(client: AsyncHitherto, user: str, size: int) -> None:
    """Save the memories of one user."""
    sensitive, others = texts(size)
    await client.import_memories(
        [
            *(memory(user, content, sensitive=True) for content in sensitive),
            *(memory(user, content, sensitive=False) for content in others),
        ]
    )


async def encrypt(client: AsyncHitherto, users: Sequence[str], place: BenchmarkDatabase) -> None:
    """Turn encryption on and wait until the sweep has sealed what is there.

    Raises:
        TimeoutError: It did not within five minutes.
    """
    for user in users:
        await client.update_user_settings(user, encrypt_sensitive=True)
    async with asyncio.timeout(_PATIENCE_SECONDS):
        await nothing_left(place.conninfo, _TO_SEAL)


async def alternate(
    one: Callable[[int], Awaitable[object]], other: Callable[[int], Awaitable[object]], times: int
) -> tuple[float, float]:
    """The median milliseconds of each of two calls, made in turn."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(times + _WARM_UP):
        pair = [(0, one), (1, other)]
        for which, call in pair if number % 2 else reversed(pair):
            begun = time.perf_counter()
            await call(number)
            if number >= _WARM_UP:
                found[which].append((time.perf_counter() - begun) * 1000)
    return statistics.median(found[0]), statistics.median(found[1])


async def measure(
    place: BenchmarkDatabase, searches: int, saves: int, progress: Progress
) -> dict[int, Sequence[float]]:
    """Fill, encrypt, and ask of every size: by size the figures that `COLUMNS` names."""
    async with serving(place, encryption_key=_KEY) as client:
        filled = counting(progress, "saving", 2 * len(SIZES))
        for size in SIZES:
            for kind in ("clear", "sealed"):
                await fill(client, f"{kind}-{size}", size)
                filled()
        progress("sealing", 0, 1)
        await encrypt(client, [f"sealed-{size}" for size in SIZES], place)
        found: dict[int, Sequence[float]] = {}
        measured = counting(progress, "measuring", len(SIZES))
        for size in SIZES:
            questions = _questions(size, searches + _WARM_UP)
            rng = random.Random(f"saves/{size}")
            fresh = [sentence(rng, _WORDS) for _ in range(saves + _WARM_UP)]

            def search(
                user: str, asked: Sequence[str] = questions
            ) -> Callable[[int], Awaitable[object]]:
                return lambda number: client.search(user, asked[number], limit=10)

            def save(
                user: str, contents: Sequence[str] = fresh
            ) -> Callable[[int], Awaitable[object]]:
                return lambda number: client.save_memory(user, contents[number], type="personal")

            clear, sealed = f"clear-{size}", f"sealed-{size}"
            read = await alternate(search(clear), search(sealed), searches)
            saved = await alternate(save(clear), save(sealed), saves)
            found[size] = (*read, read[1] / read[0], *saved, saved[1] / saved[0])
            measured()
        return found


def _questions(size: int, number: int) -> list[str]:
    """Words of the memories, some of each."""
    sensitive, others = texts(size)
    rng = random.Random(f"questions/{size}")
    made = []
    for n in range(number):
        known = rng.choice(sensitive if sensitive and n % 2 else others).rstrip(".").split()
        made.append(" ".join(rng.sample(known, _ASKED)))
    return made


async def _measure(given: argparse.Namespace, progress: Progress) -> BenchmarkResult:
    async with temporary_place() as place:
        found = await measure(place, given.searches, given.saves, progress)
    figures = {
        f"{name}, {size} sensitive": value
        for size, row in found.items()
        for name, value in zip(COLUMNS, row, strict=True)
    }
    rows = [
        (
            f"{size:,}",
            *(
                f"{value:.2f}" if name.endswith("ratio") else f"{value:.1f} ms"
                for name, value in zip(COLUMNS, row, strict=True)
            ),
        )
        for size, row in found.items()
    ]
    title = "Encryption: sealed by clear"
    table = FigureTable(title, ("sensitive memories", *COLUMNS), rows, left=0)
    return BenchmarkResult("encryption", [ResultPart(title, figures, [table])])


BENCHMARK = Benchmark(
    name="encryption",
    description="Measure what encrypting sensitive text costs.",
    arguments=lambda parser: add_counts(
        parser,
        argparse.Namespace(searches=60, saves=30),
        {"searches": "of each user", "saves": "of each user"},
    ),
    measure=_measure,
)

if __name__ == "__main__":
    main(BENCHMARK)
