"""The floor: the least a Python process must do to take a transcript and ask a model about it.

    FLOOR_CONNINFO=… python -m benchmarks.throughput.floor --model-port N

A call over gRPC whose bytes nobody looks into, one INSERT that is a transaction of its own, and
two HTTP calls written by hand, with bodies and replies of the usual size. It learns nothing, and no
real service can cost less. It prints `port N` once it listens, and ends with its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random

import uvloop
from psycopg_pool import AsyncConnectionPool

from benchmarks.bare_service import serve
from benchmarks.words import sentence

TABLE = "CREATE TABLE floor (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)"
CONNINFO = "FLOOR_CONNINFO"
CONNECTIONS = 4

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Floor:
    """Does what the one call asks for."""

    def __init__(self, pool: AsyncConnectionPool, model_port: int) -> None:
        self._pool = pool
        self._model_port = model_port
        self._free: list[Connection] = []
        rng = random.Random("floor")
        self._chat = _post(
            "/v1/chat/completions",
            {"model": "floor", "messages": [{"role": "user", "content": sentence(rng, 2_000)}]},
        )
        self._embed = _post(
            "/v1/embeddings",
            {
                "model": "floor",
                "input": [sentence(rng, 15) for _ in range(6)],
                "encoding_format": "base64",
            },
        )

    async def take(self, request: bytes) -> bytes:
        """Store the request and call the model twice."""
        async with self._pool.connection() as connection:
            await connection.execute("INSERT INTO floor (body) VALUES (%s)", [request])
        await self._call(self._chat)
        await self._call(self._embed)
        return b""

    async def _call(self, request: bytes) -> bytes:
        reader, writer = (
            self._free.pop()
            if self._free
            else await asyncio.open_connection("127.0.0.1", self._model_port, limit=1 << 20)
        )
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.rpartition(b"Content-Length: ")[2])
        body = await reader.readexactly(length)
        self._free.append((reader, writer))
        return body


def _post(path: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    ).encode() + data


async def run(model_port: int) -> None:
    """Answer until standard input ends."""
    async with AsyncConnectionPool(
        os.environ[CONNINFO], min_size=CONNECTIONS, kwargs={"autocommit": True}, open=False
    ) as pool:
        await serve(Floor(pool, model_port).take)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-port", type=int, required=True)
    uvloop.run(run(parser.parse_args().model_port))
