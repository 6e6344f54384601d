"""Exports of chat assistants: ChatGPT and Claude."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hitherto_client.importers.values import (
    JsonObject,
    mapping_of,
    messages_of,
    moment,
    objects_of,
    text_of,
)

CHATGPT_FILES = ("conversations",)
CLAUDE_FILES = ("conversations",)
_LONGEST_BRANCH = 100_000


def chatgpt(value: JsonObject) -> Iterator[JsonObject]:
    """A conversation of `conversations.json`: the branch that the user saw last.

    Edited questions and regenerated answers are other branches and were not what was said in the
    end. Hidden instructions, tools and pictures are left out.
    """
    nodes = mapping_of(value.get("mapping"))
    if not nodes:
        return
    branch: list[JsonObject] = []
    seen: set[str] = set()
    node_id = text_of(value.get("current_node")) or _last_leaf(nodes)
    while node_id in nodes and node_id not in seen and len(seen) < _LONGEST_BRANCH:
        seen.add(node_id)
        node = mapping_of(nodes[node_id])
        branch.append(mapping_of(node.get("message")))
        node_id = text_of(node.get("parent"))
    messages = messages_of(_chatgpt_message(one) for one in reversed(branch))
    identity = text_of(value.get("conversation_id")) or text_of(value.get("id"))
    if messages and identity:
        yield {
            "conversation_id": f"chatgpt:{identity}",
            "messages": _titled(messages, "chatgpt", text_of(value.get("title"))),
        }


def _last_leaf(nodes: Mapping[str, Any]) -> str:
    """The newest message without an answer, for exports that name no current node."""
    leaves = [
        (message.get("create_time") or 0.0, node_id)
        for node_id, node in nodes.items()
        if not mapping_of(node).get("children")
        and isinstance(
            (message := mapping_of(mapping_of(node).get("message"))).get("create_time") or 0.0,
            int | float,
        )
    ]
    return max(leaves, default=(0.0, ""))[1]


def _chatgpt_message(message: JsonObject) -> JsonObject:
    role = text_of(mapping_of(message.get("author")).get("role"))
    hidden = mapping_of(message.get("metadata")).get("is_visually_hidden_from_conversation")
    content = mapping_of(message.get("content"))
    if hidden or text_of(content.get("content_type")) not in {"text", "multimodal_text"}:
        return {}
    parts = content.get("parts")
    spoken = [_part(part) for part in parts] if isinstance(parts, list) else []
    return {
        "id": text_of(message.get("id")),
        "role": role,
        "content": "\n".join(part for part in spoken if part),
        "created_at": moment(message.get("create_time")),
    }


def _part(part: object) -> str:
    """The words of a part; spoken words of a voice chat included, pictures not."""
    return part if isinstance(part, str) else text_of(mapping_of(part).get("text"))


def claude(value: JsonObject) -> Iterator[JsonObject]:
    """A conversation of `conversations.json`, with the text of attached files left out."""
    roles = {"human": "user", "user": "user", "assistant": "assistant"}
    messages = messages_of(
        {
            "id": text_of(one.get("uuid")),
            "role": roles.get(text_of(one.get("sender")), ""),
            "content": _claude_text(one),
            "created_at": moment(one.get("created_at")),
        }
        for one in objects_of(value.get("chat_messages"))
    )
    identity = text_of(value.get("uuid"))
    if messages and identity:
        yield {
            "conversation_id": f"claude:{identity}",
            "messages": _titled(messages, "claude", text_of(value.get("name"))),
        }


def _claude_text(message: JsonObject) -> str:
    parts = [
        text_of(part.get("text"))
        for part in objects_of(message.get("content"))
        if part.get("type") == "text"
    ]
    return "\n".join(part for part in parts if part) or text_of(message.get("text"))


def _titled(messages: list[JsonObject], source: str, title: str) -> list[JsonObject]:
    for message in messages:
        message["metadata"] = {"imported_from": source} | ({"title": title} if title else {})
    return messages
