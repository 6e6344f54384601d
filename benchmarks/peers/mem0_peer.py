"""Runs mem0 on pgvector: `AsyncMemory.add` without inference, `AsyncMemory.search`."""

from __future__ import annotations

import asyncio
import importlib
from pathlib import Path
from typing import Any

from benchmarks.peers.loop import Task, load, measure, read_task


async def run(task: Task) -> None:
    """Load and measure."""
    # Present in its own environment only.
    mem0: Any = importlib.import_module("mem0")
    openai = {"api_key": "none", "openai_base_url": task.base_url}
    memory = mem0.AsyncMemory.from_config(
        {
            "vector_store": {
                "provider": "pgvector",
                "config": {
                    "connection_string": task.conninfo,
                    "collection_name": "memories",
                    "embedding_model_dims": task.dimensions,
                    "minconn": 8,
                    "maxconn": 16,
                },
            },
            "embedder": {
                "provider": "openai",
                "config": {**openai, "model": task.model, "embedding_dims": task.dimensions},
            },
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

    await load(task, store)
    await measure(task, search)


if __name__ == "__main__":
    asyncio.run(run(read_task()))
