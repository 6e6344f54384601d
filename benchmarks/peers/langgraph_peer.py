"""Runs LangGraph's Postgres store: `aput` with an index of the text, `asearch` by query."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any
from uuid import uuid4

from benchmarks.peers.loop import Task, load, measure, read_task

_FIELD = "text"


async def run(task: Task) -> None:
    """Load and measure."""
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
        ) as store:
            await store.setup()

            async def put(user: str, text: str) -> object:
                return await store.aput(("memories", user), str(uuid4()), {_FIELD: text})

            async def search(user: str, query: str) -> int:
                found = await store.asearch(("memories", user), query=query, limit=task.limit)
                return len(found)

            await load(task, put)
            await measure(task, search)


if __name__ == "__main__":
    asyncio.run(run(read_task()))
