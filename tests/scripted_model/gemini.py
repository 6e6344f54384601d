"""Google's generateContent, as the scripted assistant reads and answers it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def text_of(content: Mapping[str, Any]) -> str:
    """The text of a content, which has parts."""
    return "".join(part.get("text", "") for part in content["parts"])


def history(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Roles and texts of a request's conversation."""
    roles = {"model": "assistant"}
    return [
        (roles.get(content["role"], content["role"]), text_of(content))
        for content in body["contents"]
    ]


def reply(text: str, calls: tuple[tuple[str, str, str], ...]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": text}] if text else []
    parts += (
        {"functionCall": {"id": id, "name": name, "args": json.loads(arguments)}}
        for id, name, arguments in calls
    )
    return {
        "candidates": [
            {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        "modelVersion": "scripted",
    }
