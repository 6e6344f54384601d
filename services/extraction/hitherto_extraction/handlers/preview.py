"""Converts the result of a preview, without the ids of the rolled-back rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hitherto.v1 import entity_pb2, memory_pb2
from hitherto.v1 import extraction_service_pb2 as pb
from hitherto_extraction.pipeline.preview import PreviewResult
from hitherto_shared.convert import (
    entity_message,
    memory_message,
    profile_message,
    result_message,
    summary_message,
)
from hitherto_shared.models import Entity, Memory


def lesson_message(lesson: PreviewResult) -> pb.PreviewExtractionResponse:
    """The reply of PreviewExtraction."""
    unstored = {str(memory.memory_id) for memory in lesson.created}
    return pb.PreviewExtractionResponse(
        memories_created=_memories(lesson.created, unstored),
        memories_updated=_memories(lesson.updated, unstored),
        memories_contradicted=_memories(lesson.contradicted, unstored),
        goals_achieved=_memories(lesson.achieved, unstored),
        profile=profile_message(lesson.profile) if lesson.profile else None,
        summary=summary_message(lesson.summary) if lesson.summary else None,
        entities=[_entity(entity, new=new) for entity, new in lesson.entities],
        result=result_message(lesson.result.stored()),
    )


def _memories(memories: Iterable[Memory], unstored: Collection[str]) -> list[memory_pb2.Memory]:
    found = []
    for memory in memories:
        message = memory_message(memory)
        message.job_id = ""
        if message.id in unstored:
            message.id = ""
        if message.superseded_by in unstored:
            message.superseded_by = ""
        kept = [other for other in message.supersedes if other not in unstored]
        del message.supersedes[:]
        message.supersedes.extend(kept)
        found.append(message)
    return found


def _entity(entity: Entity, *, new: bool) -> entity_pb2.Entity:
    message = entity_message(entity)
    if new:
        message.id = ""
    return message
