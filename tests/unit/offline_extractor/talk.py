"""Builds the batches of the offline extractor's tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hitherto_extraction.provider.offline import OfflineExtractor
from hitherto_extraction.provider.protocol import Batch, Prompt, PromptMemory, PromptMessage

SATURDAY = datetime(2026, 3, 14, 10, tzinfo=UTC)


def user(text: str, name: str = "") -> tuple[str, str, str]:
    return ("user", name, text)


def assistant(text: str) -> tuple[str, str, str]:
    return ("assistant", "", text)


async def answer(
    *messages: tuple[str, str, str],
    known: Sequence[tuple[str, str]] = (),
    profile: Mapping[str, Any] | None = None,
    summary: Mapping[str, Any] | None = None,
    said_at: datetime = SATURDAY,
    time_zone: str = "UTC",
) -> dict[str, Any]:
    """Ask the extractor; `known` holds (type, content) of existing memories e1, e2…"""
    batch = Batch(
        profile=profile or {},
        summary=summary,
        memories=tuple(
            PromptMemory(f"e{number}", kind, content, SATURDAY)
            for number, (kind, content) in enumerate(known, 1)
        ),
        messages=tuple(
            PromptMessage(f"m{number}", role, name, text, said_at)
            for number, (role, name, text) in enumerate(messages, 1)
        ),
        time_zone=time_zone,
    )
    prompt = Prompt(system="", user="", batch=batch, schema={})
    found: dict[str, Any] = json.loads((await OfflineExtractor().complete(prompt)).text)
    return found


def contents(found: Mapping[str, Any]) -> list[str]:
    return [memory["content"] for memory in found["new_memories"]]


def profile_of(found: Mapping[str, Any]) -> dict[str, Any]:
    return {change["path"]: change["value"] for change in found["profile_changes"]}
