"""What tools return: short JSON for a model instead of whole messages of the contract.

Every item says when it is from and, unless the user said it, who did.
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import json_format
from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import (
    conversation_pb2,
    document_pb2,
    entity_pb2,
    memory_pb2,
    profile_pb2,
    search_pb2,
    session_pb2,
)
from hitherto_client.wire import word

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U000e0000-\U000e0fff]"
    # Selectors of forms: only one, and only after characters that have several.
    '|(?<=[ -"$-)+-/:-~])[\ufe00-\ufe0f]|[\ufe00-\ufe0f](?=[\ufe00-\ufe0f])'
)
"""What no reader sees and a model reads nevertheless, such as letters of the tag block."""
LONGEST_TEXT = 4_000
"""Characters of one text in a result; longer ones are cut and marked."""


def visible(value: Any) -> Any:
    """JSON without hidden characters, in which others could hide instructions."""
    match value:
        case str():
            return value if value.isascii() and value.isprintable() else _HIDDEN.sub("", value)
        case dict():
            return {visible(key): visible(one) for key, one in value.items()}
        case list():
            return [visible(one) for one in value]
    return value


def item(result: search_pb2.SearchResult) -> dict[str, Any]:
    """A search result of any kind."""
    match result.WhichOneof("item"):
        case "memory":
            found = memory(result.memory)
        case "message":
            found = message(result.message)
        case "summary":
            found = summary(result.summary)
        case _:
            found = _chunk(result.document_chunk)
    return {**found, "score": round(result.score, 3)}


def memory(one: memory_pb2.Memory) -> dict[str, Any]:
    """A memory."""
    return _present(
        kind="memory",
        id=one.id,
        type=_word(memory_pb2.MemoryType, one.type),
        content=_cut(one.content),
        detail=_cut(one.detail),
        said_by=_word(memory_pb2.Origin, one.origin),
        status=_word(memory_pb2.MemoryStatus, one.status),
        since=_day(one, "valid_from"),
        until=_day(one, "valid_to"),
    )


def message(one: conversation_pb2.Message) -> dict[str, Any]:
    """A message of a conversation."""
    return _present(
        kind="message",
        id=one.id,
        conversation_id=one.conversation_id,
        said_by=_word(conversation_pb2.Role, one.role),
        name=one.name,
        content=_cut(one.content),
        when=_time(one, "created_at"),
    )


def summary(one: conversation_pb2.ConversationSummary) -> dict[str, Any]:
    """The summary of a conversation."""
    return _present(
        kind="summary",
        conversation_id=one.conversation_id,
        title=one.title,
        content=_cut(one.summary),
        topics=list(one.key_topics),
        outcome=_word(conversation_pb2.Outcome, one.outcome),
        followup_suggestions=list(one.followup_suggestions),
        when=_time(one, "updated_at"),
    )


def conversation(one: conversation_pb2.Conversation) -> dict[str, Any]:
    """A conversation: its summary, and its last messages if they were requested."""
    found = summary(one.summary)
    if one.messages:
        found["messages"] = [message(each) for each in one.messages]
    return found


def entity(one: entity_pb2.Entity) -> dict[str, Any]:
    """A person, project or thing."""
    return _present(
        name=one.name,
        type=_word(entity_pb2.EntityType, one.type),
        aliases=list(one.aliases),
        mentions=one.mention_count,
        details=json_format.MessageToDict(one.metadata),
    )


def profile(one: profile_pb2.Profile) -> dict[str, Any]:
    """A profile; empty if the user has none."""
    return _present(
        summary=_cut(one.summary),
        department=one.department,
        current_projects=list(one.current_projects),
        preferences=json_format.MessageToDict(one.preferences),
        frequent_intents=list(one.frequent_intents),
        facts=json_format.MessageToDict(one.facts),
        updated=_day(one, "updated_at"),
    )


def pending_action(one: session_pb2.PendingAction) -> dict[str, Any]:
    """An action that waits for the user's decision."""
    return _present(
        id=one.id,
        type=one.type,
        description=_cut(one.description),
        status=_word(session_pb2.PendingActionState, one.status),
    )


def _chunk(one: document_pb2.DocumentChunk) -> dict[str, Any]:
    return _present(
        kind="document",
        id=one.document_id,
        source=one.source_type,
        title=one.title,
        said_by="document",
        content=_cut(one.content or one.summary),
        when=_time(one, "created_at"),
    )


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in ("", None, [], {})}


def _word(enum: Any, number: int) -> str:
    return word(enum.DESCRIPTOR, number) if number else ""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}… (cut)"


def _day(owner: Any, field: str) -> str:
    return _time(owner, field)[:10]


def _time(owner: Any, field: str) -> str:
    if not owner.HasField(field):
        return ""
    value: Timestamp = getattr(owner, field)
    return value.ToJsonString()[:16] + "Z"
