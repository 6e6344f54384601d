"""Anthropic's messages, as the scripted assistant answers them: whole and as streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def message(number: int, text: str, calls: tuple[tuple[str, str, str], ...]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += (
        {"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments)}
        for id, name, arguments in calls
    )
    return {
        **_head(number),
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
    }


def events(
    number: int, words: list[str], calls: tuple[tuple[str, str, str], ...]
) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {**_head(number), "content": []}}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if words:
        deltas = [{"type": "text_delta", "text": word} for word in words]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for id, name, arguments in calls:
        parts = (arguments[:5], arguments[5:])
        deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        blocks.append(({"type": "tool_use", "id": id, "name": name, "input": {}}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    reason = "tool_use" if calls else "end_turn"
    ended = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def _head(number: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
