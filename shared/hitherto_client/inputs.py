"""What calls take besides plain arguments: dicts with the field names of the contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NotRequired, Required, TypedDict

from hitherto_client.results.conversations import ContextItem
from hitherto_client.words import Confidence, MemorySource, MemoryType, Origin, Role


class MessageInput(TypedDict, total=False):
    """A message, such as `{"role": "user", "content": "I live in Porto."}`."""

    role: Required[Role]
    content: Required[str]
    """At most 64 KiB of UTF-8."""
    id: str
    """Your id for it, unique in its conversation. Unset: derived from the content."""
    name: str
    """The speaker's name if several share a role."""
    created_at: datetime
    """When it was sent. Unset: now. Decides which of two statements is newer."""
    context_items: Sequence[ContextItem]
    """What the assistant used for this answer: feedback on it applies to them."""
    context_item_ids: Sequence[str]
    """The same, by ids alone."""
    pending_action_ids: Sequence[str]
    """The actions that this message proposed."""
    metadata: Mapping[str, Any]
    """Your own JSON, at most 64 KiB."""


class TranscriptInput(TypedDict):
    """A conversation, or the next part of one."""

    user_id: str
    conversation_id: str
    messages: Iterable[MessageInput]
    """In chronological order, at most 2,000; known ones are skipped."""
    ended: NotRequired[bool]
    """True if the conversation is over."""
    time_zone: NotRequired[str]
    """IANA name of the zone of relative dates. Unset: the user's, else UTC."""


class MemoryInput(TypedDict):
    """A memory for an import; the fields mean the same as the arguments of `save_memory`."""

    user_id: str
    content: str
    detail: NotRequired[str]
    type: NotRequired[MemoryType]
    importance: NotRequired[float]
    confidence: NotRequired[Confidence]
    tags: NotRequired[Sequence[str]]
    keywords: NotRequired[Sequence[str]]
    source: NotRequired[MemorySource]
    origin: NotRequired[Origin]
    conversation_id: NotRequired[str]
    context: NotRequired[Mapping[str, Any]]
    metadata: NotRequired[Mapping[str, Any]]
    valid_from: NotRequired[datetime]
    expires_at: NotRequired[datetime]
    sensitive: NotRequired[bool]
    replaces: NotRequired[Sequence[str]]
    idempotency_key: NotRequired[str]


class DocumentInput(TypedDict):
    """An email, file, task or calendar event; its source type and id identify it."""

    source_type: str
    """The system it comes from, such as `gmail` or `jira`."""
    source_id: str
    """Its id there."""
    content_type: NotRequired[str]
    """`email`, `document`, `task`, `event` or any other name."""
    title: NotRequired[str]
    summary: NotRequired[str]
    content: NotRequired[str]
    author: NotRequired[str]
    created_at: NotRequired[datetime]
    metadata: NotRequired[Mapping[str, Any]]
    """Free JSON; people and projects in known keys, such as `from`, become entities."""
    expires_at: NotRequired[datetime]
    """When reads stop returning it; it is then deleted. Unset: never."""
