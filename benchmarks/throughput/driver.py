"""Sends transcripts, never more than a number of them unfinished, and asks the database how far.

The transcripts are the same ones in every run. The services are asked nothing else: their CPU is
that of taking transcripts and working on them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
from psycopg import AsyncConnection

from benchmarks import BenchmarkFailed
from benchmarks.words import sentence
from hitherto.v1 import extraction_service_pb2, extraction_service_pb2_grpc
from hitherto_client.wire import build

MESSAGES = 20
_WORDS = (10, 40)
_FIRST = datetime(2026, 1, 5, 9, tzinfo=UTC)
_CALL_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_STALLED_SECONDS = 30.0

_STATES = "SELECT state, count(*) FROM jobs WHERE conversation_id LIKE %s GROUP BY state"
_UNFINISHED = "SELECT count(*) FROM jobs WHERE state IN ('queued', 'failed', 'running')"
_ERRORS = """
SELECT DISTINCT error FROM jobs WHERE conversation_id LIKE %s AND error <> '' LIMIT 3
"""
_WAITS = """
SELECT 1000 * date_part('epoch', started_at - created_at),
       1000 * date_part('epoch', finished_at - created_at)
FROM jobs
WHERE conversation_id LIKE %s AND state = 'succeeded'
"""


def request(phase: str, number: int, users: int) -> extraction_service_pb2.SubmitTranscriptsRequest:
    """Transcript `number` of a phase: a new conversation of one of `users` users.

    Args:
        phase: Begins the conversation's id, so that jobs can be told apart by phase.
        number: Which one. Neighbouring numbers belong to different users.
        users: Over how many users the transcripts are spread.
    """
    rng = random.Random(f"{phase} {number}")
    began = _FIRST + timedelta(hours=number)
    messages = [
        {
            "id": f"m{i}",
            "role": "assistant" if i % 2 else "user",
            "content": sentence(rng, rng.randint(*_WORDS)),
            "created_at": began + timedelta(minutes=i),
        }
        for i in range(MESSAGES)
    ]
    transcript = {
        "user_id": f"user-{number % users}",
        "conversation_id": f"{phase}-{number}",
        "messages": messages,
    }
    return build(extraction_service_pb2.SubmitTranscriptsRequest, transcripts=[transcript])


class Driver:
    """Sends phases of transcripts to services that share a database.

    Args:
        ports: Where the services listen; calls take turns.
        connection: An administrator's connection, in autocommit.
        users: Over how many users transcripts are spread.
    """

    def __init__(self, ports: Sequence[int], connection: AsyncConnection, users: int) -> None:
        self._channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}") for port in ports]
        self._stubs: list[Any] = [
            extraction_service_pb2_grpc.ExtractionServiceStub(channel) for channel in self._channels
        ]
        self._connection = connection
        self._users = users

    async def close(self) -> None:
        """Close the connections to the services."""
        for channel in self._channels:
            await channel.close()

    async def run(
        self, phase: str, transcripts: int, in_flight: int, finished: Callable[[int], None]
    ) -> float:
        """Send a phase and wait until all its jobs have succeeded.

        Args:
            phase: Its name, new in this run.
            transcripts: How many.
            in_flight: How many may be unfinished at a time.
            finished: Is told every now and then how many are done.

        Returns:
            Seconds from the first call to the end of the last job.

        Raises:
            BenchmarkFailed: Some jobs did not succeed.
        """
        began = moved = time.monotonic()
        done = sent = 0
        while done < transcripts and time.monotonic() - moved <= _STALLED_SECONDS:
            following = range(sent, min(done + in_flight, transcripts))
            await asyncio.gather(*(self.submit(phase, number) for number in following))
            sent += len(following)
            await asyncio.sleep(_LOOK_SECONDS)
            if (now_done := sent - await self.unfinished()) > done:
                done, moved = now_done, time.monotonic()
                finished(done)
        seconds = time.monotonic() - began
        await self._check(phase, transcripts)
        return seconds

    async def submit(self, phase: str, number: int) -> None:
        """Send one transcript."""
        stub = self._stubs[number % len(self._stubs)]
        await stub.SubmitTranscripts(request(phase, number, self._users), timeout=_CALL_SECONDS)

    async def one_by_one(self, phase: str, transcripts: int, pauses: Sequence[float]) -> None:
        """Send transcripts to an idle service: each after the one before has ended, and a pause."""
        for number in range(transcripts):
            await self.submit(phase, number)
            give_up = time.monotonic() + _STALLED_SECONDS
            while await self.unfinished():
                if time.monotonic() > give_up:
                    break
                await asyncio.sleep(_LOOK_SECONDS)
            await asyncio.sleep(pauses[number % len(pauses)])
        await self._check(phase, transcripts)

    async def waits(self, phase: str) -> tuple[list[float], list[float]]:
        """Milliseconds from acceptance to the start of each job of a phase, and to its end."""
        cursor = await self._connection.execute(_WAITS, [f"{phase}-%"])
        rows = await cursor.fetchall()
        return [float(row[0]) for row in rows], [float(row[1]) for row in rows]

    async def unfinished(self) -> int:
        """How many jobs have not ended."""
        cursor = await self._connection.execute(_UNFINISHED)
        row = await cursor.fetchone()
        return int(row[0]) if row else 0

    async def _check(self, phase: str, transcripts: int) -> None:
        cursor = await self._connection.execute(_STATES, [f"{phase}-%"])
        states = {row[0]: int(row[1]) for row in await cursor.fetchall()}
        if states != {"succeeded": transcripts}:
            cursor = await self._connection.execute(_ERRORS, [f"{phase}-%"])
            told = "; ".join(str(row[0]) for row in await cursor.fetchall()) or "no error is noted"
            raise BenchmarkFailed(
                f"{transcripts} transcripts were to succeed; their jobs stand at {states}: {told}"
            )
