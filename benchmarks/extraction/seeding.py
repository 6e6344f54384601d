"""Puts memories in place that a user has before a conversation, whatever model is measured.

The one implementation hands each over as a message and lets a scripted model answer with it word
for word. That needs the extraction service for itself; it runs only while memories are placed.
Embedders of this machine give the memories their vectors at once. One behind an API is out of
reach here: then the memories are stored without vectors, and the service that is measured fills
them in, within seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from benchmarks import BenchmarkFailed
from benchmarks.extraction.calls import all_ended
from benchmarks.serving import BenchmarkDatabase, writing
from hitherto.v1 import conversation_pb2, extraction_service_pb2
from hitherto_extraction.config import ExtractionSettings
from tests.scripted_model import ChatAnswer, ChatRequest, ScriptedModel, StatusFault
from tests.scripted_model.answers import memory

_BATCH = 50
_CONVERSATION = "before"


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
            names = list(users)
            for start in range(0, len(names), _BATCH):
                transcripts = [_told(user, users[user]) for user in names[start : start + _BATCH]]
                accepted = await service.transcripts.SubmitTranscripts(
                    extraction_service_pb2.SubmitTranscriptsRequest(transcripts=transcripts)
                )
                jobs = await all_ended(service.transcripts, [job.id for job in accepted.jobs])
                for job in jobs:
                    short = job.result.memories_created < len(users[job.user_id])
                    if job.error or (short and whole):
                        raise BenchmarkFailed(
                            f"of the {len(users[job.user_id])} memories that {job.user_id} has to "
                            f"begin with {job.result.memories_created} could be stored"
                            + (f": {job.error}" if job.error else "")
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
