"""Floors: what a Python process must spend at least, each kind a process of its own.

    FLOOR_CONNINFO=… python -m benchmarks.floor KIND

- `echo`: gRPC and nothing else;
- `select`: gRPC and `SELECT 1` on a pooled connection;
- `search`: gRPC, a bare HTTP call of the embeddings endpoint and one statement: the exact top of
  one user's vectors. No authentication, no words, no ranking, no memories read, no reply made;
- `transcript`: gRPC, one INSERT that is a transaction of its own, and two HTTP calls written by
  hand, with bodies and replies of the usual size. It learns nothing.

All but `search` look at no byte of a request, and no real service can cost less. A process prints
`port N` once it listens, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import grpc
import numpy as np
import uvloop
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from benchmarks.processes import listening
from benchmarks.words import DIMENSIONS, sentence
from hitherto.v1 import retrieval_service_pb2

TABLE = "CREATE TABLE floor (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)"
"""What `transcript` needs in its database."""
CONNINFO = "FLOOR_CONNINFO"
MODEL = "FLOOR_MODEL"
MODEL_PORT = "FLOOR_MODEL_PORT"
TENANT = "FLOOR_TENANT"
CONNECTIONS = 8
METHOD = "/hitherto.benchmark.Floor/Take"

Take = Callable[[bytes, object], Awaitable[bytes]]
"""Makes the bytes of a reply of those of a request; the call itself is not looked at."""

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

    async def take(request: bytes, _: object) -> bytes:
        return request

    yield take


@asynccontextmanager
async def select() -> AsyncIterator[Take]:
    """Asks the database for a number."""
    async with _pool() as pool:

        async def take(*_: object) -> bytes:
            async with pool.connection() as connection:
                cursor = await connection.execute("SELECT 1")
                await cursor.fetchone()
            return b""

        yield take


@asynccontextmanager
async def search() -> AsyncIterator[Take]:
    """Embeds the query of a `SearchMemoriesRequest` and finds the nearest vectors."""
    url = f"http://127.0.0.1:{os.environ[MODEL_PORT]}/v1/embeddings"
    model, tenant = os.environ[MODEL], os.environ[TENANT]
    wanted = {"model": model, "encoding_format": "base64", "dimensions": DIMENSIONS}
    async with (
        _pool() as pool,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):

        async def take(request: bytes, _: object) -> bytes:
            asked = retrieval_service_pb2.SearchMemoriesRequest.FromString(request)
            async with session.post(url, json={**wanted, "input": [asked.query]}) as reply:
                data = json.loads(await reply.read())["data"][0]["embedding"]
            vector = HalfVector(np.frombuffer(base64.b64decode(data), dtype="<f4"))
            async with pool.connection() as connection:
                cursor = await connection.execute(
                    _NEAREST, [vector, tenant, asked.user_id, model, vector, asked.limit]
                )
                rows = await cursor.fetchall()
            return b"".join(row[0].bytes for row in rows)

        yield take


@asynccontextmanager
async def transcript() -> AsyncIterator[Take]:
    """Stores the request and calls the model twice, over kept connections."""
    rng = random.Random("floor")
    chat = _post(
        "/v1/chat/completions",
        {"model": "floor", "messages": [{"role": "user", "content": sentence(rng, 2_000)}]},
    )
    texts = [sentence(rng, 15) for _ in range(6)]
    embed = _post("/v1/embeddings", {"model": "floor", "input": texts, "encoding_format": "base64"})
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call(request: bytes) -> None:
        if not free:
            port = os.environ[MODEL_PORT]
            free.append(await asyncio.open_connection("127.0.0.1", port, limit=1 << 20))
        reader, writer = free.pop()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.rpartition(b"Content-Length: ")[2]))
        free.append((reader, writer))

    async with _pool() as pool:

        async def take(request: bytes, _: object) -> bytes:
            async with pool.connection() as connection:
                await connection.execute("INSERT INTO floor (body) VALUES (%s)", [request])
            await call(chat)
            await call(embed)
            return b""

        yield take


def _post(path: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    ).encode() + data


def _pool() -> AsyncConnectionPool[AsyncConnection]:
    return AsyncConnectionPool(
        os.environ[CONNINFO],
        min_size=CONNECTIONS,
        max_size=CONNECTIONS,
        kwargs={"autocommit": True},
        configure=_configure if TENANT in os.environ else None,
        open=False,
    )


async def _configure(connection: AsyncConnection) -> None:
    """Let a connection see the rows of one tenant for good, which costs a call nothing."""
    await register_vector_async(connection)
    await connection.execute(
        "SELECT set_config('hitherto.tenant_id', %s, false)", [os.environ[TENANT]]
    )


async def serve(kind: str) -> None:
    """Be a floor of this kind on a free port of 127.0.0.1 until standard input ends."""
    service, _, method = METHOD.strip("/").partition("/")
    server = grpc.aio.server()
    async with KINDS[kind]() as take:
        handler: Any = grpc.unary_unary_rpc_method_handler(take)
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(service, {method: handler})]
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        await listening(port)
        await server.stop(None)


KINDS = {"echo": echo, "select": select, "search": search, "transcript": transcript}

if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
