"""Converts between protobuf messages and our models, whose fields mostly bear the same names.

`memory_message` creates a message, `memory_fields` returns its fields: embedding a message into the
reply of a list copies it, which takes as long again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar, cast

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import (
    conversation_pb2,
    entity_pb2,
    history_pb2,
    job_pb2,
    memory_pb2,
    privacy_pb2,
    profile_pb2,
    session_pb2,
)
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


class EnumWords(dict[int, str]):
    """The lower-case word of each number but 0, and `numbers`: the number of each word."""

    def __init__(self, enum: EnumDescriptor) -> None:
        prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
        super().__init__(
            (value.number, value.name.removeprefix(prefix).lower())
            for value in enum.values
            if value.number != 0
        )
        self.numbers = {word: number for number, word in self.items()}


MEMORY_TYPE = EnumWords(memory_pb2.MemoryType.DESCRIPTOR)
MEMORY_STATUS = EnumWords(memory_pb2.MemoryStatus.DESCRIPTOR)
MEMORY_SOURCE = EnumWords(memory_pb2.MemorySource.DESCRIPTOR)
CONFIDENCE = EnumWords(memory_pb2.Confidence.DESCRIPTOR)
ORIGIN = EnumWords(memory_pb2.Origin.DESCRIPTOR)
ROLE = EnumWords(conversation_pb2.Role.DESCRIPTOR)
OUTCOME = EnumWords(conversation_pb2.Outcome.DESCRIPTOR)
ENTITY_TYPE = EnumWords(entity_pb2.EntityType.DESCRIPTOR)
JOB_STATE = EnumWords(job_pb2.JobState.DESCRIPTOR)
ACTION_STATE = EnumWords(session_pb2.PendingActionState.DESCRIPTOR)
SECRET_HANDLING = EnumWords(privacy_pb2.SecretHandling.DESCRIPTOR)
EVENT_KIND = EnumWords(history_pb2.HistoryEventKind.DESCRIPTOR)
EVENT_KIND_NUMBERS = {
    **EVENT_KIND.numbers,
    "merged": history_pb2.HISTORY_EVENT_KIND_UPDATED,
}
"""Wire values by the schema's words; a restatement counts as an update."""

Fields = dict[str, Any]
"""A message by its fields, as its constructor takes them; nested ones may be fields too."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp(moment: datetime | None) -> Timestamp | None:
    """A time on the wire; None stays unset."""
    return None if moment is None else Timestamp(**_moment_fields(moment))


def _moment(moment: datetime | None) -> Fields | None:
    return None if moment is None else _moment_fields(moment)


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
_MOMENTS = ("last_accessed_at", "valid_to", "expires_at", "last_confirmed_at")
"""Fields of a memory that are often unset."""


def memory_message(memory: Memory) -> memory_pb2.Memory:
    """A memory on the wire."""
    return memory_pb2.Memory(**memory_fields(memory))


def memory_fields(memory: Memory) -> Fields:
    """The fields of a memory on the wire; rarely set fields are included only if set."""
    found: Fields = {
        "id": str(memory.memory_id),
        "user_id": memory.user_id,
        "type": MEMORY_TYPE.numbers[memory.type],
        "content": memory.content,
        "importance": memory.importance,
        "confidence": CONFIDENCE.numbers[memory.confidence],
        "source": MEMORY_SOURCE.numbers[memory.source],
        "origin": ORIGIN.numbers[memory.origin],
        "status": MEMORY_STATUS.numbers[memory.status],
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
    _add_standing(found, memory)
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


def _add_standing(found: Fields, memory: Memory) -> None:
    """Add what a memory rests on, and why it may no longer hold."""
    if memory.doubt is not None:
        found["doubt"] = {
            "because_memory_id": memory.doubt["because"] or "",
            "reason": memory.doubt["reason"],
            "since": _moment_fields(datetime.fromisoformat(memory.doubt["since"])),
        }
    if memory.may_replace:
        found["may_replace"] = [str(memory_id) for memory_id in memory.may_replace]
    if memory.evidence:
        found["evidence"] = [
            {
                "conversation_id": source.conversation_id,
                "message_id": source.message_id,
                "quote": quote,
            }
            for source, quote in memory.evidence
        ]


Made = TypeVar("Made", bound=ProtoMessage)


def made(kind: type[Made], model: Any, /, **more: Any) -> Made:
    """A message of `more` and, for every other field, what the model has under the same name."""
    same = {
        name: convert(getattr(model, name)) if convert else getattr(model, name)
        for name, convert in _other_fields(cast(Any, kind), cast(Any, type(model)), frozenset(more))
    }
    return kind(**same, **more)


@cache
def _other_fields(
    kind: type[ProtoMessage], model: type, given: frozenset[str]
) -> list[tuple[str, Callable[[Any], Any] | None]]:
    """The names of the fields that are not given, each with what converts its values, if any."""
    others = [of for of in kind.DESCRIPTOR.fields if of.name not in given]
    held = {each.name for each in dataclasses.fields(model)}
    if missing := [of.name for of in others if of.name not in held]:
        raise TypeError(f"{model.__name__} lacks fields of {kind.__name__}: {', '.join(missing)}")
    return [(of.name, _conversion(of)) for of in others]


def _conversion(of: Any) -> Callable[[Any], Any] | None:
    if of.enum_type is not None:
        return EnumWords(of.enum_type).numbers.__getitem__
    if of.message_type is None:
        return None
    return _moment if of.message_type.name == "Timestamp" else struct


def profile_message(profile: Profile) -> profile_pb2.Profile:
    """A profile on the wire."""
    return made(profile_pb2.Profile, profile, sources=_sources_of_values(profile.sources))


def _sources_of_values(
    sources: Mapping[str, Mapping[str, Any]],
) -> dict[str, profile_pb2.ProfileSource]:
    return {
        path: profile_pb2.ProfileSource(
            conversation_id=source["conversation_id"],
            message_id=source["message_id"],
            said_at=timestamp(datetime.fromisoformat(source["said_at"])),
            memory_ids=source["memory_ids"],
            quote=source["quote"],
        )
        for path, source in sources.items()
    }


def summary_message(summary: Summary) -> conversation_pb2.ConversationSummary:
    """A conversation's summary on the wire."""
    return made(conversation_pb2.ConversationSummary, summary)


def context_items(items: Iterable[Mapping[str, Any]]) -> list[conversation_pb2.ContextItem]:
    """The sources of an answer, on the wire."""
    return [
        conversation_pb2.ContextItem(id=item["id"], relevance=item.get("relevance", 0.0))
        for item in items
    ]


def message_message(message: Message) -> conversation_pb2.Message:
    """A message of a conversation on the wire."""
    found: Fields = {
        "id": message.message_id,
        "role": ROLE.numbers[message.role],
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
    return conversation_pb2.Message(**found)


def preference_message(preference: Preference) -> profile_pb2.Preference:
    """A learnt preference on the wire."""
    value = Value()
    json_format.ParseDict(preference.value, value)
    return made(profile_pb2.Preference, preference, value=value)


def pending_action_message(action: PendingAction) -> session_pb2.PendingAction:
    """A pending action on the wire; an empty result is a result."""
    status = ACTION_STATE.numbers[action.state]
    found = made(session_pb2.PendingAction, action, id=action.action_id, status=status, result=None)
    if action.result is not None:
        found.result.SetInParent()
        found.result.update(dict(action.result))
    return found


def entity_message(entity: Entity) -> entity_pb2.Entity:
    """An entity on the wire."""
    return made(entity_pb2.Entity, entity, id=str(entity.entity_id))


def job_message(job: Job, consistency_token: str = "") -> job_pb2.Job:
    """A job on the wire; the token only for a job that has ended."""
    total = 0
    done = 0
    if job.range_from is not None and job.range_to is not None:
        total = job.range_to - job.range_from + 1
        done = (job.done_to or 0) - job.range_from + 1 if job.done_to else 0
    return made(
        job_pb2.Job,
        job,
        id=str(job.job_id),
        result=result_message(job.result),
        consistency_token=consistency_token,
        progress=job_pb2.JobProgress(messages_done=max(0, done), messages_total=total),
    )


def result_message(result: Mapping[str, Any]) -> job_pb2.JobResult | None:
    """The result of a job on the wire; None if there is none yet."""
    if not result:
        return None
    known = job_pb2.JobResult.DESCRIPTOR.fields_by_name
    return job_pb2.JobResult(
        **{"usage": {}, **{name: value for name, value in result.items() if name in known}}
    )
