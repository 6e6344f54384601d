"""Puts the sessions into the services and waits until everything of them can be found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from benchmarks import BenchmarkFailed
from benchmarks.locomo.data import transcript
from benchmarks.serving import BenchmarkDatabase, Writing
from hitherto.v1 import (
    extraction_service_pb2,
    job_pb2,
    memory_pb2,
    retrieval_service_pb2,
)
from hitherto_shared.database.connect import Role, with_role

PATIENCE = 600.0
"""Seconds until a job, or the vectors of everything, count as lost."""
_AT_ONCE = 20
_POLL_SECONDS = 0.25
_EVERY_STATUS = [number for number in memory_pb2.MemoryStatus.values() if number]
_WAITING = """
SELECT (SELECT count(*) FROM memories WHERE embedding_state = 'pending')
     + (SELECT count(*) FROM messages WHERE embedding_state = 'pending')
     + (SELECT count(*) FROM conversation_summaries WHERE embedding_state = 'pending')
"""


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
    writer: Writing,
    reader: Any,
    sessions: Sequence[Mapping[str, Any]],
    done: Callable[[], None] = lambda: None,
) -> LoadedCounts:
    """Send every session and wait for its job and for the vectors of what came of it.

    Args:
        place: Where the services work.
        writer: The extraction service.
        reader: The retrieval service's stub.
        sessions: Rows of the data set.
        done: Called after each session.

    Raises:
        BenchmarkFailed: It took too long.
    """
    succeeded = 0
    for job_id in await _submit(writer.transcripts, sessions):
        succeeded += await _in_time(_succeeded(writer.transcripts, job_id), "a job did not end")
        done()
    await _in_time(_vectors(place), "texts still wait for their vectors")
    users = sorted({session["user_id"] for session in sessions})
    memories = [memory for user in users for memory in await _memories(reader, user)]
    return LoadedCounts(
        sessions=len(sessions),
        succeeded=succeeded,
        summaries=sum([await _summaries(reader, user) for user in users]),
        messages=sum(len(session["messages"]) for session in sessions),
        memories=len(memories),
        with_sources=sum(bool(memory.source_message_ids) for memory in memories),
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


async def _submit(transcripts: Any, sessions: Sequence[Mapping[str, Any]]) -> list[str]:
    accepted: list[str] = []
    for start in range(0, len(sessions), _AT_ONCE):
        response = await transcripts.SubmitTranscripts(
            extraction_service_pb2.SubmitTranscriptsRequest(
                transcripts=[transcript(row) for row in sessions[start : start + _AT_ONCE]]
            )
        )
        accepted.extend(job.id for job in response.jobs)
    return accepted


async def _succeeded(transcripts: Any, job_id: str) -> bool:
    state = job_pb2.JOB_STATE_UNSPECIFIED
    watched = transcripts.WatchJob(extraction_service_pb2.WatchJobRequest(job_id=job_id))
    async for update in watched:
        state = update.job.state
    return bool(state == job_pb2.JOB_STATE_SUCCEEDED)


async def _vectors(place: BenchmarkDatabase) -> None:
    async with await _connect(place, "hitherto_maintenance") as database:
        while True:
            row = await (await database.execute(_WAITING)).fetchone()
            if row is not None and row[0] == 0:
                break
            await asyncio.sleep(_POLL_SECONDS)
    # What autovacuum does within a minute or so: without it searches take twice as long till then.
    async with await _connect(place, "hitherto_owner") as database:
        await database.execute("ANALYZE")


async def _connect(place: BenchmarkDatabase, role: Role) -> psycopg.AsyncConnection[Any]:
    conninfo = with_role(place.conninfo, role, application="bench")
    return await psycopg.AsyncConnection.connect(conninfo, autocommit=True)


async def _memories(reader: Any, user: str) -> list[memory_pb2.Memory]:
    found: list[memory_pb2.Memory] = []
    token = ""
    while True:
        page = await reader.ListMemories(
            retrieval_service_pb2.ListMemoriesRequest(
                user_id=user, page_size=1_000, page_token=token, statuses=_EVERY_STATUS
            )
        )
        found.extend(page.memories)
        token = page.next_page_token
        if not token:
            return found


async def _summaries(reader: Any, user: str) -> int:
    page = await reader.ListConversations(
        retrieval_service_pb2.ListConversationsRequest(user_id=user)
    )
    return int(page.total_size)
