"""Floors: what a Python process must spend at least, each kind a process of its own.

    FLOOR_CONNINFO=… python -m benchmarks.retrieval.floor --kind search --embedder-port N

- `echo`: gRPC and nothing else;
- `select`: gRPC and `SELECT 1` on a pooled connection;
- `search`: gRPC, a bare HTTP call of the embeddings endpoint and one statement: the exact top of
  one user's vectors. No authentication, no words, no ranking, no memories read, no reply made.

It prints `port N` once it listens, and ends with its standard input.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import numpy as np
import uvloop
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from benchmarks.bare_service import Take, serve
from benchmarks.embeddings_reply import DIMENSIONS
from hitherto.v1 import retrieval_service_pb2

KINDS = ("echo", "select", "search")
CONNINFO = "FLOOR_CONNINFO"
MODEL = "FLOOR_MODEL"
TENANT = "FLOOR_TENANT"
CONNECTIONS = 8

_NEAREST = """
SELECT memory_id, -(embedding <#> %b) AS cosine
FROM memory_embeddings
WHERE tenant_id = %s AND user_id = %s AND model = %s AND status IN ('active', 'achieved')
ORDER BY embedding <#> %b
LIMIT %s
"""


@asynccontextmanager
async def echo() -> AsyncIterator[Take]:
    """Answers what it is sent."""

    async def take(request: bytes) -> bytes:
        return request

    yield take


@asynccontextmanager
async def select() -> AsyncIterator[Take]:
    """Asks the database for a number."""
    async with _pool() as pool:

        async def take(_: bytes) -> bytes:
            async with pool.connection() as connection:
                cursor = await connection.execute("SELECT 1")
                await cursor.fetchone()
            return b""

        yield take


@asynccontextmanager
async def search(embedder_port: int) -> AsyncIterator[Take]:
    """Embeds the query of a `SearchMemoriesRequest` and finds the nearest vectors."""
    url = f"http://127.0.0.1:{embedder_port}/v1/embeddings"
    model, tenant = os.environ[MODEL], os.environ[TENANT]
    async with (
        _pool() as pool,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):

        async def take(request: bytes) -> bytes:
            asked = retrieval_service_pb2.SearchMemoriesRequest.FromString(request)
            body = {
                "model": model,
                "input": [asked.query],
                "encoding_format": "base64",
                "dimensions": DIMENSIONS,
            }
            async with session.post(url, json=body) as reply:
                data = json.loads(await reply.read())["data"][0]["embedding"]
            vector = HalfVector(np.frombuffer(base64.b64decode(data), dtype="<f4"))
            async with pool.connection() as connection:
                cursor = await connection.execute(
                    _NEAREST, [vector, tenant, asked.user_id, model, vector, asked.limit]
                )
                rows = await cursor.fetchall()
            return b"".join(row[0].bytes for row in rows)

        yield take


async def run(kind: str, embedder_port: int) -> None:
    """Answer until standard input ends."""
    made = {"echo": echo, "select": select}[kind]() if kind != "search" else search(embedder_port)
    async with made as take:
        await serve(take)


def _pool() -> AsyncConnectionPool[AsyncConnection]:
    """Its connections see the rows of one tenant for good, which costs a call nothing."""
    return AsyncConnectionPool(
        os.environ[CONNINFO],
        min_size=CONNECTIONS,
        max_size=CONNECTIONS,
        kwargs={"autocommit": True},
        configure=_configure,
        open=False,
    )


async def _configure(connection: AsyncConnection) -> None:
    await register_vector_async(connection)
    await connection.execute(
        "SELECT set_config('hitherto.tenant_id', %s, false)", [os.environ[TENANT]]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--embedder-port", type=int, default=0)
    given = parser.parse_args()
    uvloop.run(run(given.kind, given.embedder_port))
