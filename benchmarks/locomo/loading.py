"""Puts the sessions into the services and waits until everything of them can be found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from benchmarks import BenchmarkFailed
from benchmarks.locomo.data import transcript
from benchmarks.serving import EVERY_STATUS, BenchmarkDatabase, all_vectors, ended, submit
from hitherto_client import AsyncHitherto
from hitherto_shared.database.connect import with_role

PATIENCE = 600.0
"""Seconds until a job, or the vectors of everything, count as lost."""


@dataclass(frozen=True, slots=True)
class LoadedCounts:
    """What the services hold after loading."""

    sessions: int
    succeeded: int
    summaries: int
    messages: int
    memories: int
    with_sources: int


async def load_into(
    place: BenchmarkDatabase,
    client: AsyncHitherto,
    sessions: Sequence[Mapping[str, Any]],
    done: Callable[[], None] = lambda: None,
) -> LoadedCounts:
    """Send every session and wait for its job and for the vectors of what came of it.

    Args:
        place: Where the services work.
        client: Of the services there.
        sessions: Rows of the data set.
        done: Called after each session.

    Raises:
        BenchmarkFailed: It took too long.
    """
    succeeded = 0
    for job_id in await submit(client, map(transcript, sessions)):
        job = await _in_time(ended(client, job_id), "a job did not end")
        succeeded += job.succeeded
        done()
    await _in_time(all_vectors(place.conninfo), "texts still wait for their vectors")
    # What autovacuum does within a minute or so: without it searches take twice as long till then.
    login = with_role(place.conninfo, "hitherto_owner", application="bench")
    async with await psycopg.AsyncConnection.connect(login, autocommit=True) as database:
        await database.execute("ANALYZE")
    users = sorted({session["user_id"] for session in sessions})
    held = [
        memory for user in users async for memory in client.memories(user, statuses=EVERY_STATUS)
    ]
    summaries = [summary for user in users async for summary in client.conversations(user)]
    return LoadedCounts(
        sessions=len(sessions),
        succeeded=succeeded,
        summaries=len(summaries),
        messages=sum(len(session["messages"]) for session in sessions),
        memories=len(held),
        with_sources=sum(bool(memory.source_message_ids) for memory in held),
    )


async def _in_time(work: Awaitable[Any], otherwise: str) -> Any:
    try:
        async with asyncio.timeout(PATIENCE):
            return await work
    except TimeoutError:
        raise BenchmarkFailed(
            f"{otherwise} after {PATIENCE:.0f} s: run it again on a machine with less to do, or "
            "look at what the service logs"
        ) from None
