"""What tools return: short JSON for a model instead of whole messages of the contract.

Every item says when it is from and, unless the user said it, who did. Days and times are those of
where the user lives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from hitherto.v1 import (
    conversation_pb2,
    document_pb2,
    entity_pb2,
    memory_pb2,
    profile_pb2,
    search_pb2,
    session_pb2,
)
from hitherto_client.days import iso_day, local
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
_SHOWN: Mapping[type[Message], str] = {
    memory_pb2.Memory: (
        "id type content detail said_by=origin status since=valid_from until=valid_to "
        "replaced_by=superseded_by"
    ),
    conversation_pb2.Message: "id conversation_id said_by=role name content when=created_at",
    conversation_pb2.ConversationSummary: (
        "conversation_id title content=summary topics=key_topics outcome followup_suggestions "
        "when=updated_at"
    ),
    document_pb2.DocumentChunk: "id=document_id source=source_type title content when=created_at",
    entity_pb2.Entity: "name type aliases mentions=mention_count details=metadata",
    profile_pb2.Profile: (
        "summary department current_projects preferences frequent_intents facts updated=updated_at"
    ),
    session_pb2.PendingAction: "id type description params status",
}
"""What is told of each message, and of which field where that has another name."""
_TO_THE_MINUTE = "when"
"""The name of times that are told to the minute; of others, the day is told."""


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
    kind = result.WhichOneof("item") or "document_chunk"
    one = getattr(result, kind)
    found = {"kind": kind.removesuffix("_chunk"), **shown(one)}
    if isinstance(one, document_pb2.DocumentChunk):
        found |= _present({"said_by": "document", "content": _cut(one.content or one.summary)})
    return {**found, "score": round(result.score, 3)}


def conversation(one: conversation_pb2.Conversation) -> dict[str, Any]:
    """A conversation: its summary, and its last messages if they were requested."""
    found = {"kind": "summary", **shown(one.summary)}
    if one.messages:
        found["messages"] = [{"kind": "message", **shown(each)} for each in one.messages]
    return found


def still_said(reply: Any) -> dict[str, Any]:
    """What else states what was forgotten or corrected, and what was taken along, if anything."""
    told = {}
    for name, places in (("still_said", reply.also_states), ("taken_along", reply.carried_along)):
        if places:
            told[name] = [
                {
                    place.WhichOneof("place"): getattr(place, place.WhichOneof("place")),
                    "text": visible(place.text)[:LONGEST_TEXT],
                }
                for place in places
            ]
    return told


def memory(one: memory_pb2.Memory) -> dict[str, Any]:
    """A memory."""
    return {"kind": "memory", **shown(one)}


def shown(one: Message) -> dict[str, Any]:
    """Those fields of a message that are told, if they hold anything."""
    told = {}
    for given in _SHOWN[type(one)].split():
        name, _, field = given.partition("=")
        told[name] = _value(one, field or name, minute=name == _TO_THE_MINUTE)
    return _present(told)


def _value(one: Message, name: str, *, minute: bool) -> Any:
    of: Any = one.DESCRIPTOR.fields_by_name[name]
    value = getattr(one, name)
    if of.is_repeated:
        return list(value)
    if of.enum_type is not None:
        return word(of.enum_type, value) if value else ""
    if of.message_type is None:
        return _cut(value) if isinstance(value, str) else value
    if of.message_type.name != "Timestamp":
        return json_format.MessageToDict(value)
    if not one.HasField(name):
        return ""
    at = value.ToDatetime(tzinfo=UTC)
    if not minute:
        return iso_day(at)
    return local(at).isoformat(timespec="minutes").replace("+00:00", "Z")


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in ("", None, [], {})}


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}… (cut)"
