"""The one call of a consolidation: instructions in the system message, memories in the user's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC
from importlib import resources
from typing import Any

from hitherto_extraction.consolidation.groups import Group
from hitherto_extraction.pipeline.prompt import one_line
from hitherto_extraction.provider.protocol import CONSOLIDATION, Batch, Prompt, PromptMemory

VERSION = "consolidation_2"

_folder = resources.files("hitherto_extraction.prompts")
_SYSTEM = (_folder / f"{VERSION}.md").read_text("utf-8")
_SCHEMA: Mapping[str, Any] = json.loads((_folder / f"{VERSION}.json").read_text("utf-8"))


def build_prompt(group: Group, *, temperature: float, max_tokens: int) -> Prompt:
    """The prompt for a group, whose members are `e1`, `e2`… in their order."""
    memories = [
        PromptMemory(f"e{i}", each.type, each.content, each.valid_from, each.tags)
        for i, each in enumerate(group.members, 1)
    ]
    return Prompt(
        system=_SYSTEM,
        user="\n".join(["MEMORIES:", *map(_line, memories)]),
        batch=Batch(profile={}, summary=None, memories=memories, messages=[]),
        schema=_SCHEMA,
        version=VERSION,
        temperature=temperature,
        max_tokens=max_tokens,
        task=CONSOLIDATION,
    )


def _line(memory: PromptMemory) -> str:
    day = memory.date.astimezone(UTC).date().isoformat()
    return f"[{memory.local_id}] ({memory.type}, {day}) {one_line(memory.content)}"
