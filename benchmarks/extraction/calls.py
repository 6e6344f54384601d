"""The calls to the services that a run consists of."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import grpc
from google.protobuf import json_format

from benchmarks import BenchmarkFailed
from benchmarks.extraction.rows import ConversationCase, ObservedMemory
from benchmarks.serving import (
    BenchmarkDatabase,
    Reader,
    Writer,
    ended,
    memories,
    submit,
    writing,
)
from hitherto.v1 import (
    conversation_pb2,
    job_pb2,
    profile_pb2,
    retrieval_service_pb2,
)
from hitherto_extraction.config import ExtractionSettings
from hitherto_shared.convert import JOB_STATE, MEMORY_STATUS, MEMORY_TYPE
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel, StatusFault
from tests.scripted_model.answers import memory

PATIENCE = 300.0
"""Seconds until a job counts as lost."""

_ROLES = {name.removeprefix("ROLE_").lower(): n for name, n in conversation_pb2.Role.items()}
_NOT_LEARNT = ("userId", "version", "lastExtractedAt", "updatedAt", "accessLevel")
_CONVERSATION = "before"


def transcript_of(row: ConversationCase, user: str) -> conversation_pb2.Transcript:
    """The row's conversation, as it is handed over."""
    transcript = conversation_pb2.Transcript(
        user_id=user, conversation_id=row.id, ended=True, time_zone=row.time_zone
    )
    for number, said in enumerate(row.transcript, 1):
        message = transcript.messages.add(
            id=f"m{number}", role=_ROLES[said.role], name=said.name, content=said.content
        )
        message.created_at.FromDatetime(said.created_at)
    return transcript


async def learn(
    writer: Writer, transcript: conversation_pb2.Transcript, *, patience: float = PATIENCE
) -> tuple[job_pb2.Job, str]:
    """Hand a conversation over and wait for its job.

    Returns:
        The job, and why it did not succeed, or nothing.
    """
    (job_id,) = await submit(writer, [transcript])
    try:
        async with asyncio.timeout(patience):
            job = await ended(writer, job_id)
    except TimeoutError:
        missing = f"no end within {patience:g} seconds: is the model within reach?"
        return job_pb2.Job(id=job_id), missing
    if job.state != job_pb2.JOB_STATE_SUCCEEDED:
        return job, job.error or JOB_STATE[job.state]
    return job, ""


async def observed(reader: Reader, user: str, token: str = "") -> list[ObservedMemory]:
    """Every memory of a user, whatever its status, the oldest first."""
    return [
        ObservedMemory(
            id=memory.id,
            type=MEMORY_TYPE[memory.type],
            content=memory.content,
            importance=memory.importance,
            status=MEMORY_STATUS[memory.status],
            version=memory.version,
        )
        for memory in reversed(await memories(reader, user, token))
    ]


async def profile(reader: Reader, user: str, token: str = "") -> list[str]:
    """What a profile says, as `path: value`; empty for a user without one."""
    try:
        found = await reader.GetProfile(
            retrieval_service_pb2.GetProfileRequest(user_id=user, consistency_token=token)
        )
    except grpc.aio.AioRpcError as error:
        if error.code() == grpc.StatusCode.NOT_FOUND:
            return []
        raise
    return _flat(found.profile)


async def summary(reader: Reader, user: str, token: str = "") -> dict[str, Any]:
    """The summary of a user's latest conversation, with the fields of the model's answer."""
    page = await reader.ListConversations(
        retrieval_service_pb2.ListConversationsRequest(user_id=user, consistency_token=token)
    )
    if not page.conversations:
        return {}
    found = json_format.MessageToDict(page.conversations[0], preserving_proto_field_name=True)
    kept = ("title", "summary", "key_topics", "technical_topics", "outcome", "followup_suggestions")
    return {name: value for name, value in found.items() if name in kept}


def _flat(found: profile_pb2.Profile) -> list[str]:
    texts: list[str] = []

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{path}.{key}" if path else key, inner)
        elif isinstance(value, list):
            for inner in value:
                walk(path, inner)
        elif value not in ("", None):
            texts.append(f"{path}: {value}")

    whole = json_format.MessageToDict(found)
    walk("", {key: value for key, value in whole.items() if key not in _NOT_LEARNT})
    return texts


@dataclass(frozen=True, slots=True)
class SeededMemory:
    """One memory to put in place."""

    type: str
    content: str
    importance: float
    said_at: datetime


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
        async with writing(
            place, openai_base_url=model.base_url, extractor="openai", embedder=embedder
        ) as service:
            transcripts = [_told(user, known) for user, known in users.items()]
            jobs = await submit(service.transcripts, transcripts)
            async with asyncio.timeout(PATIENCE):
                for job_id in jobs:
                    job = await ended(service.transcripts, job_id)
                    wanted, stored = len(users[job.user_id]), job.result.memories_created
                    if job.error or (stored < wanted and whole):
                        raise BenchmarkFailed(
                            f"of the {wanted} memories that {job.user_id} has to begin with "
                            f"{stored} could be stored" + (f": {job.error}" if job.error else "")
                        )


def _told(user: str, memories: Sequence[SeededMemory]) -> conversation_pb2.Transcript:
    transcript = conversation_pb2.Transcript(user_id=user, conversation_id=_CONVERSATION)
    for number, item in sorted(enumerate(memories), key=lambda pair: pair[1].said_at):
        message = transcript.messages.add(
            id=f"b{number}",
            role=conversation_pb2.ROLE_USER,
            name=f"{user} {number}",
            content=item.content,
        )
        message.created_at.FromDatetime(item.said_at)
    return transcript
