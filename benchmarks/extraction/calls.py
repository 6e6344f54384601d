"""The calls to the services that a run consists of."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks import BenchmarkFailed
from benchmarks.extraction.rows import ConversationCase, ObservedMemory, SeededMemory
from benchmarks.serving import EVERY_STATUS, BenchmarkDatabase, ended, serving, submit
from hitherto_client import AsyncHitherto
from hitherto_client.inputs import MessageInput, TranscriptInput
from hitherto_client.results import JobResult
from hitherto_extraction.config import ExtractionSettings
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel, StatusFault
from tests.scripted_model.answers import memory

PATIENCE = 300.0
"""Seconds until a job counts as lost."""

_LEARNT = ("summary", "department", "current_projects", "preferences", "frequent_intents", "facts")
_OF_A_SUMMARY = (
    *("title", "summary", "key_topics", "technical_topics", "outcome", "followup_suggestions"),
)
_CONVERSATION = "before"


def transcript_of(row: ConversationCase, user: str) -> TranscriptInput:
    """The row's conversation, as it is handed over."""
    messages: list[Any] = [
        {"id": f"m{number}", **said.model_dump()} for number, said in enumerate(row.transcript, 1)
    ]
    return {
        "user_id": user,
        "conversation_id": row.id,
        "messages": messages,
        "ended": True,
        "time_zone": row.time_zone,
    }


async def learn(
    client: AsyncHitherto, transcript: TranscriptInput, *, patience: float = PATIENCE
) -> tuple[JobResult | None, str]:
    """Hand a conversation over and wait for its job.

    Returns:
        What the job did, and why it did not succeed, or nothing.
    """
    (job_id,) = await submit(client, [transcript])
    try:
        async with asyncio.timeout(patience):
            job = await ended(client, job_id)
    except TimeoutError:
        return None, f"no end within {patience:g} seconds: is the model within reach?"
    return job.result, "" if job.succeeded else job.error or job.state


async def observed(client: AsyncHitherto, user: str) -> list[ObservedMemory]:
    """Every memory of a user, whatever its status, the oldest first."""
    found = [each async for each in client.memories(user, statuses=EVERY_STATUS)]
    return [
        ObservedMemory(
            id=memory.id,
            type=memory.type,
            content=memory.content,
            importance=memory.importance,
            status=memory.status,
            version=memory.version,
        )
        for memory in reversed(found)
    ]


async def profile(client: AsyncHitherto, user: str) -> list[str]:
    """What a profile says, as `path: value`; empty for a user without one."""
    found = await client.get_profile(user)
    return [] if found is None else _flat({name: getattr(found, name) for name in _LEARNT})


async def summary(client: AsyncHitherto, user: str) -> dict[str, Any]:
    """The summary of a user's latest conversation, with the fields of the model's answer."""
    async for found in client.conversations(user, page_size=1):
        fields = asdict(found)
        return {name: fields[name] for name in _OF_A_SUMMARY if fields[name]}
    return {}


def _flat(profile: Mapping[str, Any]) -> list[str]:
    texts: list[str] = []

    def walk(path: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                walk(f"{path}.{key}" if path else key, inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                walk(path, inner)
        elif value not in ("", None):
            texts.append(f"{path}: {value}")

    walk("", profile)
    return texts


async def place_memories(
    place: BenchmarkDatabase, given: Mapping[str, Sequence[SeededMemory]], *, whole: bool = True
) -> None:
    """Give each user memories.

    Args:
        place: A database on which no extraction service runs.
        given: Memories by user.
        whole: Refuse to go on if two memories of a user were taken for one.

    Raises:
        BenchmarkFailed: A job did not succeed.
    """
    users = {user: memories for user, memories in given.items() if memories}
    if not users:
        return
    # The speaker's name tells the scripted model which memory a message stands for.
    by_name = {
        f"{user} {number}": item
        for user, memories in users.items()
        for number, item in enumerate(memories)
    }

    def script(request: ChatRequest) -> ChatAnswer:
        told = [(line.local_id, by_name[line.name]) for line in request.messages]
        return ChatAnswer.of(
            new_memories=[
                memory(item.content, [message], type=item.type, importance=item.importance)
                for message, item in told
            ]
        )

    embedder = ExtractionSettings().chosen_embedder
    async with ScriptedModel(script) as model:
        model.always(StatusFault(503), endpoint="embeddings")
        async with serving(
            place, openai_base_url=model.base_url, extractor="openai", embedder=embedder
        ) as client:
            jobs = await submit(client, [_told(user, known) for user, known in users.items()])
            async with asyncio.timeout(PATIENCE):
                for job_id in jobs:
                    job = await ended(client, job_id)
                    wanted, stored = len(users[job.user_id]), job.result.memories_created
                    if job.error or (stored < wanted and whole):
                        raise BenchmarkFailed(
                            f"of the {wanted} memories that {job.user_id} has to begin with "
                            f"{stored} could be stored" + (f": {job.error}" if job.error else "")
                        )


def _told(user: str, memories: Sequence[SeededMemory]) -> TranscriptInput:
    ordered = sorted(enumerate(memories), key=lambda pair: pair[1].said_at)
    messages: list[MessageInput] = [
        {
            "id": f"b{number}",
            "role": "user",
            "name": f"{user} {number}",
            "content": item.content,
            "created_at": item.said_at,
        }
        for number, item in ordered
    ]
    return {"user_id": user, "conversation_id": _CONVERSATION, "messages": messages}
