"""Memories for the rules of consolidation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hitherto_extraction.storage.consolidation import Member
from hitherto_extraction.storage.editing import EditableMemory
from hitherto_shared.models import Memory

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def member(number: int, content: str, **given: Any) -> Member:
    """A memory as a group shows it; higher numbers are younger."""
    moment = NOON + timedelta(days=number)
    fields: dict[str, Any] = {
        "memory_id": UUID(int=number), "version": 1, "type": "preference", "content": content,
        "origin": "user", "tags": ["style"], "valid_from": moment, "said_at": moment, **given,
    }  # fmt: skip
    return Member(**fields)


def edited(number: int, content: str = "The user likes tea", **given: Any) -> EditableMemory:
    """The same memory as it is read again."""
    moment = NOON + timedelta(days=number)
    fields: dict[str, Any] = {
        "memory_id": UUID(int=number), "user_id": "ana", "type": "preference", "content": content,
        "importance": 0.5, "confidence": "medium", "source": "conversation", "origin": "user",
        "status": "active", "valid_from": moment, "created_at": moment, "updated_at": moment,
        "tags": ["style"], **given,
    }  # fmt: skip
    return EditableMemory(Memory(**fields), moment, (), number, 3, "stored")
