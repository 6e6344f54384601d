"""Memories of other products: mem0, LangGraph's store, Letta, Hindsight."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from hitherto_client.importers.values import (
    JsonObject,
    end_of,
    list_of,
    mapping_of,
    messages_of,
    moment,
    objects_of,
    text_of,
)

_TEXT_KEYS = ("memory", "content", "text", "fact", "data")


def _memory(source: str, content: str, **more: Any) -> Iterator[JsonObject]:
    """A memory that another product had concluded; nothing if there is no text."""
    if not content.strip():
        return
    known = {name: value for name, value in more.items() if value}
    metadata = {"imported_from": source} | known.pop("metadata", {})
    yield {"content": content.strip(), "source": "inference", **known, "metadata": metadata}


def _tags(value: object) -> list[str]:
    tags = value if isinstance(value, list) else ()
    return [tag for tag in tags if isinstance(tag, str) and tag.strip()][:20]


def _text(value: JsonObject) -> str:
    """The text of a memory, under whichever name it has there."""
    return next((text for key in _TEXT_KEYS if (text := text_of(value.get(key)))), "")


def mem0(value: JsonObject) -> Iterator[JsonObject]:
    """A memory, as `get_all` or the export of mem0 returns it."""
    yield from _memory(
        "mem0",
        _text(value),
        user_id=text_of(value.get("user_id")),
        tags=_tags(value.get("categories")),
        valid_from=moment(value.get("created_at"), value.get("updated_at")),
        expires_at=end_of(value.get("expiration_date")),
        metadata={"mem0_id": text_of(value.get("id")), **mapping_of(value.get("metadata"))},
    )


def mem0_people(value: JsonObject) -> set[str]:
    """Whose memory it is."""
    return {text_of(value.get("user_id"))} - {""}


def langgraph(value: JsonObject) -> Iterator[JsonObject]:
    """An item of a LangGraph store: namespace, key and value, as `Item.dict()` writes it."""
    held = value.get("value")
    stored = mapping_of(held)
    content = _text(stored) or text_of(held)
    if not content and stored:
        content = f"{text_of(value.get('key'))}: {json.dumps(stored, ensure_ascii=False)}"
    namespace = value.get("namespace")
    path = [str(part) for part in namespace] if isinstance(namespace, list) else []
    yield from _memory(
        "langgraph",
        content,
        valid_from=moment(value.get("created_at"), value.get("updated_at")),
        metadata={"namespace": path, "key": text_of(value.get("key"))},
    )


def langgraph_labels(value: JsonObject) -> set[str]:
    """The labels of its namespace, one of which may be a person."""
    return set(filter(None, map(text_of, list_of(value.get("namespace")))))


def letta(value: JsonObject) -> Iterator[JsonObject]:
    """An agent file (.af) or a list of archival passages."""
    blocks = [*objects_of(value.get("blocks")), *objects_of(value.get("core_memory"))]
    for block in blocks:
        label = text_of(block.get("label"))
        # The persona is who the assistant is, which is no memory of the user.
        if label == "persona":
            continue
        for line in text_of(block.get("value")).splitlines():
            yield from _memory(
                "letta",
                line.lstrip("-*• "),
                metadata={"block": label},
                valid_from=moment(block.get("updated_at"), block.get("created_at")),
            )
    lists = [value.get("passages"), value.get("archival_memory")]
    # An agent file wraps its passages; a list of them holds nothing else.
    wrapped = any(isinstance(held, list) for held in lists)
    for passage in chain.from_iterable(map(objects_of, lists)) if wrapped else (value,):
        yield from _memory(
            "letta",
            text_of(passage.get("text")),
            tags=_tags(passage.get("tags")),
            valid_from=moment(passage.get("created_at"), passage.get("updated_at")),
            metadata={"passage_id": text_of(passage.get("id"))},
        )
    for agent in [value, *objects_of(value.get("agents"))]:
        messages = messages_of(
            (_letta_message(one) for one in objects_of(agent.get("messages"))),
            moment(agent.get("created_at"), agent.get("updated_at")),
        )
        identity = text_of(agent.get("id")) or text_of(agent.get("name"))
        if messages and identity:
            yield {"conversation_id": f"letta:{identity}", "messages": messages}


_LETTA_EVENTS = {"heartbeat", "login", "system_alert"}
"""What Letta tells an agent in the role of the user."""


def _letta_message(message: JsonObject) -> JsonObject:
    """What was said: Letta wraps the user's words, and agents reply by the tool `send_message`.

    What stands beside a tool call are the agent's thoughts.
    """
    content = message.get("content")
    parts = [text_of(part.get("text")) for part in objects_of(content)]
    text = "\n".join(filter(None, parts)) or text_of(content) or text_of(message.get("text"))
    calls = [mapping_of(call.get("function")) for call in objects_of(message.get("tool_calls"))]
    if calls:
        sent = [call for call in calls if call.get("name") == "send_message"]
        given = (_object_in(text_of(call.get("arguments"))) for call in sent)
        text = "\n".join(filter(None, (text_of(one.get("message")) for one in given)))
    elif message.get("role") == "user":
        wrapped = _object_in(text)
        kind = text_of(wrapped.get("type"))
        if kind == "user_message":
            text = text_of(wrapped.get("message"))
        elif kind in _LETTA_EVENTS:
            text = ""
    return {
        "id": text_of(message.get("id")),
        "role": text_of(message.get("role")),
        "content": text,
        "created_at": moment(message.get("created_at")),
        "metadata": {"imported_from": "letta"},
    }


def _object_in(text: str) -> JsonObject:
    """The JSON object that a text is; empty if it is none."""
    try:
        return mapping_of(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def hindsight(value: JsonObject) -> Iterator[JsonObject]:
    """A fact of the memory list of a Hindsight bank."""
    yield from _memory(
        "hindsight",
        _text(value),
        tags=_tags(value.get("tags")),
        keywords=_tags(value.get("entities")),
        valid_from=moment(value.get("occurred_start"), value.get("mentioned_at")),
        metadata={
            "hindsight_id": text_of(value.get("id")),
            "fact_type": text_of(value.get("type")) or text_of(value.get("fact_type")),
        },
    )
