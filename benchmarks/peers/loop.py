"""What the processes of all peers share: the task they are given, and callers in a closed loop.

It runs with the Python of a peer and uses the standard library only.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

LOADED = "loaded "
FOUND = "found "
_AT_A_TIME = 8
_TOLD_EVERY = 100


@dataclass(frozen=True)
class Task:
    """What a peer is to do, as it stands in a file.

    Attributes:
        conninfo: A database of its own, with pgvector.
        base_url: The embeddings endpoint, in OpenAI's format.
        model: The embedding model's name.
        dimensions: Of its vectors.
        memories: Texts by user.
        asked: By memories of a user: pairs of user and query, none twice.
        limit: How many results a search wants.
        seconds: How long each measurement takes.
        callers: How many searches run at a time, one measurement each.
    """

    conninfo: str
    base_url: str
    model: str
    dimensions: int
    memories: dict[str, list[str]]
    asked: dict[str, list[tuple[str, str]]]
    limit: int
    seconds: float
    callers: list[int]


Store = Callable[[str, str], Awaitable[object]]
"""Stores a text for a user."""
Search = Callable[[str, str], Awaitable[int]]
"""Searches a user's texts for a query; how many results there were."""


def read_task() -> Task:
    """The task whose file the command line names."""
    return Task(**json.loads(Path(sys.argv[1]).read_text("utf-8")))


async def load(task: Task, store: Store) -> None:
    """Store all memories, a few at a time, user by user."""
    texts = iter([(user, text) for user, held in task.memories.items() for text in held])
    # Alone: a store may make its tables with the first one.
    await store(*next(texts))
    done = 1

    async def work() -> None:
        nonlocal done
        for user, text in texts:
            await store(user, text)
            done += 1
            if done % _TOLD_EVERY == 0:
                print(f"{LOADED}{done}", flush=True)

    await asyncio.gather(*(work() for _ in range(_AT_A_TIME)))


async def measure(task: Task, search: Search) -> None:
    """Search as the task wants, and print what came of it for `benchmarks.peers.running`."""
    found: list[dict[str, Any]] = []
    for size, asked in task.asked.items():
        queries = cycle(asked)
        for callers in task.callers:
            await _closed_loop(queries, search, callers, task.seconds / 5)
            began = time.perf_counter()
            ms, results = await _closed_loop(queries, search, callers, task.seconds)
            seconds = time.perf_counter() - began
            found.append(
                {
                    "size": int(size),
                    "callers": callers,
                    "ms": ms,
                    "seconds": seconds,
                    "results": results / max(len(ms), 1),
                }
            )
    print(f"{FOUND}{json.dumps(found)}", flush=True)


async def _closed_loop(
    queries: Iterator[tuple[str, str]], search: Search, callers: int, seconds: float
) -> tuple[list[float], int]:
    ms: list[float] = []
    results = 0
    end = time.perf_counter() + seconds

    async def call() -> None:
        nonlocal results
        while (before := time.perf_counter()) < end:
            user, query = next(queries)
            count = await search(user, query)
            ms.append(1_000 * (time.perf_counter() - before))
            # Not in the line of the await: others add to it meanwhile.
            results += count

    await asyncio.gather(*(call() for _ in range(callers)))
    return ms, results
