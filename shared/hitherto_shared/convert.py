"""Converts between protobuf messages and our models. The only module that knows enum prefixes.

`memory_message` creates a message, `memory_fields` returns its fields. The replies of lists are
assembled from fields and created once: embedding a message into another one copies it, which takes
as long again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import conversation_pb2, entity_pb2, job_pb2, memory_pb2, profile_pb2, session_pb2
from hitherto_shared.models import (
    Entity,
    Job,
    Memory,
    Message,
    PendingAction,
    Preference,
    Profile,
    Summary,
)


def enum_words(enum: EnumDescriptor, prefix: str) -> dict[int, str]:
    """The lower-case word of each number but 0."""
    return {
        value.number: value.name.removeprefix(prefix).lower()
        for value in enum.values
        if value.number != 0
    }


MEMORY_TYPE = enum_words(memory_pb2.MemoryType.DESCRIPTOR, "MEMORY_TYPE_")
MEMORY_STATUS = enum_words(memory_pb2.MemoryStatus.DESCRIPTOR, "MEMORY_STATUS_")
MEMORY_SOURCE = enum_words(memory_pb2.MemorySource.DESCRIPTOR, "MEMORY_SOURCE_")
CONFIDENCE = enum_words(memory_pb2.Confidence.DESCRIPTOR, "CONFIDENCE_")
ORIGIN = enum_words(memory_pb2.Origin.DESCRIPTOR, "ORIGIN_")
ROLE = enum_words(conversation_pb2.Role.DESCRIPTOR, "ROLE_")
OUTCOME = enum_words(conversation_pb2.Outcome.DESCRIPTOR, "OUTCOME_")
ENTITY_TYPE = enum_words(entity_pb2.EntityType.DESCRIPTOR, "ENTITY_TYPE_")
JOB_STATE = enum_words(job_pb2.JobState.DESCRIPTOR, "JOB_STATE_")
ACTION_STATE = enum_words(session_pb2.PendingActionState.DESCRIPTOR, "PENDING_ACTION_STATE_")


def _numbers(words: Mapping[int, str]) -> dict[str, int]:
    return {word: number for number, word in words.items()}


_TYPE_NO = _numbers(MEMORY_TYPE)
_STATUS_NO = _numbers(MEMORY_STATUS)
_SOURCE_NO = _numbers(MEMORY_SOURCE)
_CONFIDENCE_NO = _numbers(CONFIDENCE)
_ORIGIN_NO = _numbers(ORIGIN)
_ROLE_NO = _numbers(ROLE)
_OUTCOME_NO = _numbers(OUTCOME)
_ENTITY_NO = _numbers(ENTITY_TYPE)
_STATE_NO = _numbers(JOB_STATE)
_ACTION_STATE_NO = _numbers(ACTION_STATE)

Fields = dict[str, Any]
"""A message by its fields, as its constructor takes them; nested ones may be fields too."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp(moment: datetime | None) -> Timestamp | None:
    """A time on the wire; None stays unset."""
    return None if moment is None else Timestamp(**_moment_fields(moment))


def _moment_fields(moment: datetime) -> Fields:
    # Written out, because the library's own conversion takes four times as long and a reply holds
    # dozens.
    since = moment - _EPOCH
    return {"seconds": since.days * 86_400 + since.seconds, "nanos": since.microseconds * 1_000}


def duration_fields(seconds: float) -> Fields:
    """The fields of a duration on the wire; at least 0."""
    whole = int(seconds)
    return {"seconds": whole, "nanos": int((seconds - whole) * 1e9)}


def struct(value: Mapping[str, Any]) -> Struct | None:
    """Free-form JSON on the wire; an empty object stays unset."""
    if not value:
        return None
    found = Struct()
    found.update(dict(value))
    return found


_AS_THEY_ARE = ("detail", "tags", "keywords", "entities", "conversation_id")
_MOMENTS = ("last_accessed_at", "valid_to", "expires_at")
"""Fields of a memory that are often unset."""


def memory_message(memory: Memory) -> memory_pb2.Memory:
    """A memory on the wire."""
    return memory_pb2.Memory(**memory_fields(memory))


def memory_fields(memory: Memory) -> Fields:
    """The fields of a memory on the wire; rarely set fields are included only if set."""
    found: Fields = {
        "id": str(memory.memory_id),
        "user_id": memory.user_id,
        "type": _TYPE_NO[memory.type],
        "content": memory.content,
        "importance": memory.importance,
        "confidence": _CONFIDENCE_NO[memory.confidence],
        "source": _SOURCE_NO[memory.source],
        "origin": _ORIGIN_NO[memory.origin],
        "status": _STATUS_NO[memory.status],
        "access_count": memory.access_count,
        "created_at": _moment_fields(memory.created_at),
        "updated_at": _moment_fields(memory.updated_at),
        "valid_from": _moment_fields(memory.valid_from),
        "version": memory.version,
        "sensitive": memory.sensitive,
    }
    for name in _AS_THEY_ARE:
        if value := getattr(memory, name):
            found[name] = value
    for name in _MOMENTS:
        if moment := getattr(memory, name):
            found[name] = _moment_fields(moment)
    if memory.sources:
        found["sources"] = [
            {"conversation_id": source.conversation_id, "message_id": source.message_id}
            for source in memory.sources
        ]
        messages = dict.fromkeys([source.message_id for source in memory.sources])
        found["source_message_ids"] = list(messages)
    if memory.context:
        found["context"] = struct(memory.context)
    if memory.metadata:
        found["metadata"] = struct(memory.metadata)
    if memory.superseded_by:
        found["superseded_by"] = str(memory.superseded_by)
    if memory.supersedes:
        found["supersedes"] = [str(memory_id) for memory_id in memory.supersedes]
    if memory.job_id:
        found["job_id"] = str(memory.job_id)
    return found


def profile_message(profile: Profile) -> profile_pb2.Profile:
    """A profile on the wire."""
    return profile_pb2.Profile(
        user_id=profile.user_id,
        department=profile.department,
        summary=profile.summary,
        current_projects=profile.current_projects,
        preferences=struct(profile.preferences),
        frequent_intents=profile.frequent_intents,
        access_level=profile.access_level,
        facts=struct(profile.facts),
        metadata=struct(profile.metadata),
        version=profile.version,
        last_extracted_at=timestamp(profile.last_extracted_at),
        updated_at=timestamp(profile.updated_at),
    )


def summary_message(summary: Summary) -> conversation_pb2.ConversationSummary:
    """A conversation's summary on the wire."""
    found: Fields = {
        "conversation_id": summary.conversation_id,
        "user_id": summary.user_id,
        "title": summary.title,
        "summary": summary.summary,
        "key_topics": summary.key_topics,
        "technical_topics": summary.technical_topics,
        "outcome": _OUTCOME_NO[summary.outcome],
        "followup_suggestions": summary.followup_suggestions,
        "message_count": summary.message_count,
        "created_at": _moment_fields(summary.created_at),
        "updated_at": _moment_fields(summary.updated_at),
    }
    return conversation_pb2.ConversationSummary(**found)


def context_items(items: Iterable[Mapping[str, Any]]) -> list[conversation_pb2.ContextItem]:
    """The sources of an answer, on the wire."""
    return [
        conversation_pb2.ContextItem(id=item["id"], relevance=item.get("relevance", 0.0))
        for item in items
    ]


def message_message(message: Message) -> conversation_pb2.Message:
    """A message of a conversation on the wire."""
    return conversation_pb2.Message(**message_fields(message))


def message_fields(message: Message) -> Fields:
    """The fields of a conversation's message on the wire."""
    found: Fields = {
        "id": message.message_id,
        "role": _ROLE_NO[message.role],
        "name": message.name,
        "content": message.content,
        "created_at": _moment_fields(message.said_at),
        "conversation_id": message.conversation_id,
    }
    if message.context_items:
        found["context_item_ids"] = [item["id"] for item in message.context_items]
        found["context_items"] = context_items(message.context_items)
    if message.pending_action_ids:
        found["pending_action_ids"] = message.pending_action_ids
    if message.metadata:
        found["metadata"] = struct(message.metadata)
    return found


def preference_message(preference: Preference) -> profile_pb2.Preference:
    """A learnt preference on the wire."""
    value = Value()
    json_format.ParseDict(preference.value, value)
    return profile_pb2.Preference(
        type=preference.type,
        key=preference.key,
        value=value,
        confidence=preference.confidence,
        observations=preference.observations,
        updated_at=timestamp(preference.updated_at),
    )


def pending_action_message(action: PendingAction) -> session_pb2.PendingAction:
    """A pending action on the wire; an empty result is a result."""
    found = session_pb2.PendingAction(
        id=action.action_id,
        type=action.type,
        params=struct(action.params),
        description=action.description,
        status=_ACTION_STATE_NO[action.state],  # type: ignore[arg-type]
        created_at=timestamp(action.created_at),
        expires_at=timestamp(action.expires_at),
    )
    if action.result is not None:
        found.result.SetInParent()
        found.result.update(dict(action.result))
    return found


def entity_message(entity: Entity) -> entity_pb2.Entity:
    """An entity on the wire."""
    return entity_pb2.Entity(
        id=str(entity.entity_id),
        name=entity.name,
        type=_ENTITY_NO[entity.type],  # type: ignore[arg-type]
        aliases=entity.aliases,
        mention_count=entity.mention_count,
        metadata=struct(entity.metadata),
    )


def job_message(job: Job, consistency_token: str = "") -> job_pb2.Job:
    """A job on the wire; the token only for a job that has ended."""
    total = 0
    done = 0
    if job.range_from is not None and job.range_to is not None:
        total = job.range_to - job.range_from + 1
        done = (job.done_to or 0) - job.range_from + 1 if job.done_to else 0
    return job_pb2.Job(
        id=str(job.job_id),
        kind=job.kind,
        state=_STATE_NO[job.state],  # type: ignore[arg-type]
        user_id=job.user_id or "",
        conversation_id=job.conversation_id or "",
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        created_at=timestamp(job.created_at),
        started_at=timestamp(job.started_at),
        finished_at=timestamp(job.finished_at),
        error=job.error,
        result=result_message(job.result),
        consistency_token=consistency_token,
        progress=job_pb2.JobProgress(messages_done=max(0, done), messages_total=total),
    )


def result_message(result: Mapping[str, Any]) -> job_pb2.JobResult | None:
    """The result of a job on the wire; None if there is none yet."""
    if not result:
        return None
    usage = result.get("usage", {})
    return job_pb2.JobResult(
        counts=result.get("counts", {}),
        memories_created=result.get("memories_created", 0),
        memories_updated=result.get("memories_updated", 0),
        memories_contradicted=result.get("memories_contradicted", 0),
        goals_achieved=result.get("goals_achieved", 0),
        profile_version=result.get("profile_version", 0),
        dropped_items=result.get("dropped_items", 0),
        usage=job_pb2.Usage(**usage),
        model=result.get("model", ""),
        extractor=result.get("extractor", ""),
        prompt_version=result.get("prompt_version", ""),
    )
