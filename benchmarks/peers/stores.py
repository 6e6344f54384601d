"""The process of a peer: it loads the memories of a task, and searches them in a closed loop.

    python -m benchmarks.peers.stores mem0ai TASK.json

It runs with the Python of the peer. It prints `LOADED n` now and then, and `FOUND` with what was
measured in the end.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import uuid4

LOADED = "loaded "
FOUND = "found "
_AT_A_TIME = 8
_TOLD_EVERY = 100
_FIELD = "text"


@dataclass(frozen=True)
class Task:
    """What a peer is to do, as it stands in a file."""

    conninfo: str  # a database of its own, with pgvector
    base_url: str  # the embeddings endpoint, in OpenAI's format
    model: str  # the embedding model's name
    dimensions: int  # of its vectors
    memories: dict[str, list[str]]  # texts by user
    # By memories of a user: pairs of user and query, none twice.
    asked: dict[str, list[tuple[str, str]]]
    limit: int  # how many results a search wants
    seconds: float  # how long each measurement takes
    callers: list[int]  # how many searches run at a time, one measurement each


Store = Callable[[str, str], Awaitable[object]]
"""Stores a text for a user."""
Search = Callable[[str, str], Awaitable[int]]
"""Searches a user's texts for a query; how many results there were."""


@asynccontextmanager
async def mem0(task: Task) -> AsyncIterator[tuple[Store, Search]]:
    """mem0 on pgvector: `AsyncMemory.add` without inference, `AsyncMemory.search`."""
    # Present in its own environment only.
    module: Any = importlib.import_module("mem0")
    openai = {"api_key": "none", "openai_base_url": task.base_url}
    embedder = {**openai, "model": task.model, "embedding_dims": task.dimensions}
    pgvector = {
        "connection_string": task.conninfo,
        "collection_name": "memories",
        "embedding_model_dims": task.dimensions,
        "minconn": 8,
        "maxconn": 16,
    }
    memory = module.AsyncMemory.from_config(
        {
            "vector_store": {"provider": "pgvector", "config": pgvector},
            "embedder": {"provider": "openai", "config": embedder},
            "llm": {"provider": "openai", "config": openai},
            "history_db_path": str(Path.home() / "history.db"),
        }
    )
    if asyncio.iscoroutine(memory):
        memory = await memory

    async def store(user: str, text: str) -> object:
        return await memory.add(text, user_id=user, infer=False)

    async def search(user: str, query: str) -> int:
        found = await memory.search(query, filters={"user_id": user}, top_k=task.limit)
        return len(found["results"])

    yield store, search


@asynccontextmanager
async def langgraph(task: Task) -> AsyncIterator[tuple[Store, Search]]:
    """LangGraph's Postgres store: `aput` with an index of the text, `asearch` by query."""
    # Present in its own environment only.
    stores: Any = importlib.import_module("langgraph.store.postgres.aio")
    httpx: Any = importlib.import_module("httpx")
    async with httpx.AsyncClient(base_url=task.base_url) as client:

        async def embed(texts: list[str]) -> list[list[float]]:
            body = {
                "model": task.model,
                "input": list(texts),
                "dimensions": task.dimensions,
                "encoding_format": "float",
            }
            reply = await client.post("/embeddings", json=body)
            return [item["embedding"] for item in reply.json()["data"]]

        async with stores.AsyncPostgresStore.from_conn_string(
            task.conninfo,
            pool_config={"min_size": 8, "max_size": 16},
            index={"dims": task.dimensions, "embed": embed, "fields": [_FIELD]},
        ) as opened:
            await opened.setup()

            async def store(user: str, text: str) -> object:
                return await opened.aput(("memories", user), str(uuid4()), {_FIELD: text})

            async def search(user: str, query: str) -> int:
                found = await opened.asearch(("memories", user), query=query, limit=task.limit)
                return len(found)

            yield store, search


STORES: Mapping[str, Callable[[Task], AbstractAsyncContextManager[tuple[Store, Search]]]] = {
    "mem0ai": mem0,
    "langgraph-checkpoint-postgres": langgraph,
}
"""Opens a peer, by its package."""


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


async def measure(name: str, task: Task, search: Search) -> None:
    """Search as the task wants, and print what came of it; `name` is that of the peer."""
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
                    "name": name,
                    "size": int(size),
                    "callers": callers,
                    "ms": ms,
                    "seconds": seconds,
                    "results": results / max(len(ms), 1),
                }
            )
    # A line of its own, whatever the peer has printed.
    print(f"\n{FOUND}{json.dumps(found)}", flush=True)


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


async def run(peer: str, file: Path) -> None:
    """Load and measure."""
    task = Task(**json.loads(file.read_text("utf-8")))
    async with STORES[peer](task) as (store, search):
        await load(task, store)
        await measure(f"{peer} {version(peer)}", task, search)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], Path(sys.argv[2])))
