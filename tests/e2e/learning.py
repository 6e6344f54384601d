"""Submitting talks and looking at what was learnt from them, for the end-to-end tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg

from hitherto.v1 import (
    conversation_pb2,
    extraction_service_pb2,
    job_pb2,
    memory_pb2,
    retrieval_service_pb2,
)
from tests.e2e.conftest import Services
from tests.scripted_model import ChatAnswer, ChatRequest
from tests.scripted_model.answers import change, memory, quoting

_ROLES = {
    "user": conversation_pb2.ROLE_USER,
    "assistant": conversation_pb2.ROLE_ASSISTANT,
    "system": conversation_pb2.ROLE_SYSTEM,
    "tool": conversation_pb2.ROLE_TOOL,
}
ALL_STATUSES = [number for number in memory_pb2.MemoryStatus.values() if number]

Answered = Mapping[str, Any] | Sequence[Mapping[str, Any]]
Answering = Callable[[ChatRequest], Mapping[str, Any]]


def talk(
    *lines: str | tuple[str, str],
    user: str = "ana",
    conversation: str = "c1",
    at: datetime | None = None,
) -> conversation_pb2.Transcript:
    """A transcript of user messages, or of (role, text), all said at the same moment."""
    pairs = [("user", line) if isinstance(line, str) else line for line in lines]
    transcript = conversation_pb2.Transcript(user_id=user, conversation_id=conversation)
    for number, (role, text) in enumerate(pairs, 1):
        message = transcript.messages.add(
            id=f"{conversation}-{number}", role=_ROLES[role], content=text
        )
        if at is not None:
            message.created_at.FromDatetime(at)
    return transcript


async def submit(services: Services, *transcripts: conversation_pb2.Transcript) -> list[str]:
    """Submit one batch; the ids of its jobs."""
    accepted = await services.extraction.SubmitTranscripts(
        extraction_service_pb2.SubmitTranscriptsRequest(transcripts=transcripts)
    )
    return [job.id for job in accepted.jobs]


async def ended(services: Services, job_id: str, *, within: float = 180.0) -> job_pb2.Job:
    """The job once it has ended."""
    job = job_pb2.Job()
    async with asyncio.timeout(within):
        async for response in services.extraction.WatchJob(
            extraction_service_pb2.WatchJobRequest(job_id=job_id)
        ):
            job = response.job
    return job


async def learn(services: Services, *transcripts: conversation_pb2.Transcript) -> job_pb2.JobResult:
    """Submit transcripts one after another; the result of the last job, all having succeeded."""
    job = job_pb2.Job()
    for transcript in transcripts:
        job = await ended(services, (await submit(services, transcript))[0])
        assert job.state == job_pb2.JOB_STATE_SUCCEEDED, job.error
    return job.result


async def memories(
    services: Services, *, user: str = "ana", statuses: Sequence[Any] = ()
) -> list[memory_pb2.Memory]:
    """A user's memories, the oldest first; the current ones unless `statuses` are given."""
    listed = await services.retrieval.ListMemories(
        retrieval_service_pb2.ListMemoriesRequest(user_id=user, statuses=statuses, page_size=1000)
    )
    return list(reversed(listed.memories))


def rows(conninfo: str, statement: str) -> list[tuple[Any, ...]]:
    """What a statement finds in the test's database."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def replies(table: Mapping[str, Answering | Answered]) -> Callable[[ChatRequest], ChatAnswer]:
    """A script that answers by the words that stand in the conversation; else with nothing.

    A list is of new memories. Changes quote what they cite, unless they have a quote.
    """

    def script(request: ChatRequest) -> ChatAnswer:
        said = "\n".join(message.content for message in request.messages)
        for words, answer in table.items():
            if words in said:
                found = answer(request) if callable(answer) else answer
                more = found if isinstance(found, Mapping) else {"new_memories": found}
                return quoting(request, **more)
        return ChatAnswer.of(new_memories=[])

    return script


def altering(key: str, words: str, quote: str, *sources: str, **more: Any) -> Answering:
    """An answer with one `change`, of the memory in the prompt that contains `words`."""
    return lambda request: {key: [change(shown(request, words), quote, *sources, **more)]}


def shown(request: ChatRequest, words: str) -> str:
    """The local id of the memory in the prompt that contains `words`."""
    (found,) = [known.local_id for known in request.memories if words in known.content]
    return found


def echo(request: ChatRequest) -> ChatAnswer:
    """Every message of the user as a memory, word for word."""
    return ChatAnswer.of(
        new_memories=[
            memory(message.content, [message.local_id])
            for message in request.messages
            if message.role == "user"
        ]
    )
