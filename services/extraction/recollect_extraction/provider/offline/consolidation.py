"""Merging memories without a model: what says the same in the same words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect_extraction.provider.protocol import PromptMemory
from recollect_shared.text.normalise import fold


def consolidate(memories: Sequence[PromptMemory]) -> dict[str, Any]:
    """An answer that merges memories of one type whose words are equal when folded."""
    groups: dict[tuple[str, str], list[PromptMemory]] = {}
    for memory in memories:
        groups.setdefault((memory.type, fold(memory.content)), []).append(memory)
    return {
        "memories": [
            {
                "type": kind,
                "content": same[-1].content,
                "merged": [memory.local_id for memory in same],
            }
            for (kind, _), same in groups.items()
            if len(same) > 1
        ]
    }
