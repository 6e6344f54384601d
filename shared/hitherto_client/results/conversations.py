"""Conversations, documents, and the working memory of sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hitherto_client.results.jobs import Job
from hitherto_client.results.memories import Memory, Preference
from hitherto_client.words import Outcome, PendingActionState, Role


@dataclass(frozen=True, slots=True)
class ContextItem:
    """Something that an answer was based on."""

    id: str
    """The id of a memory, message, summary (its conversation's id) or document chunk."""
    relevance: float
    """The score that it had when it was used."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    id: str
    role: Role
    name: str
    content: str
    created_at: datetime | None
    context_item_ids: tuple[str, ...]
    context_items: tuple[ContextItem, ...]
    pending_action_ids: tuple[str, ...]
    metadata: dict[str, Any]
    conversation_id: str


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """The summary of a conversation."""

    conversation_id: str
    user_id: str
    title: str
    summary: str
    key_topics: tuple[str, ...]
    technical_topics: tuple[str, ...]
    outcome: Outcome
    followup_suggestions: tuple[str, ...]
    message_count: int
    created_at: datetime | None
    updated_at: datetime | None
    pending_messages: int = 0
    """Messages of user and assistant that no job has read; only in lists of conversations."""
    learns_at: datetime | None = None
    """When they are read if the chat goes on no further; None if none are pending."""
    last_said_at: datetime | None = None
    """When its newest message was said."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The summary of a conversation with its last messages."""

    summary: ConversationSummary
    messages: tuple[Message, ...]
    """In chronological order."""


@dataclass(frozen=True, slots=True)
class Added:
    """Messages that were accepted for a running chat."""

    message_ids: tuple[str, ...]
    """The ids of the messages, in their order."""
    pending_messages: int
    """How many messages of the conversation wait for the next job."""
    job: Job | None
    """The job that reads the waiting messages; None if they wait for more."""


@dataclass(frozen=True, slots=True)
class Document:
    """An email, file, task or calendar event."""

    source_type: str
    source_id: str
    content_type: str
    title: str
    summary: str
    content: str
    """The text; empty in lists."""
    author: str
    created_at: datetime | None
    metadata: dict[str, Any]
    id: str
    updated_at: datetime | None
    expires_at: datetime | None
    """When reads stop returning it; None: never."""


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """A part of a document that a search found."""

    id: str
    document_id: str
    source_type: str
    source_id: str
    content_type: str
    title: str
    summary: str
    content: str
    """The text of this part."""
    position: int
    """The place of this part in the document, from 0."""
    created_at: datetime | None
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ingested:
    """Documents that were accepted."""

    job: Job
    """The job that reads them, or that last read them if all are unchanged."""
    new_count: int
    replaced_count: int
    unchanged_count: int
    document_ids: tuple[str, ...]
    """In the order in which the documents were given."""


@dataclass(frozen=True, slots=True)
class PendingAction:
    """An action that the assistant proposed and that waits for the user's confirmation."""

    id: str
    type: str
    params: dict[str, Any]
    description: str
    status: PendingActionState
    result: dict[str, Any]
    """The outcome; empty until a caller reports one."""
    created_at: datetime | None
    expires_at: datetime | None
    """When it expires unless it is final by then."""


@dataclass(frozen=True, slots=True)
class AddedAction:
    """An action that was added to a session."""

    pending_action: PendingAction
    session_id: str
    """The session, a new one if the call named none."""


@dataclass(frozen=True, slots=True)
class Session:
    """The working memory of a session."""

    context: dict[str, Any]
    """Free JSON of the caller; expires 30 minutes after its last update."""
    preferences: tuple[Preference, ...]
    recent_items: tuple[ContextItem, ...]
    """What was used last; belongs to the user, expires after 15 minutes."""
    pending_actions: tuple[PendingAction, ...]
    """The actions that are not final, oldest first."""
    reason: str
    """`MEMORY_DISABLED` if memory is switched off for the user; empty otherwise."""


@dataclass(frozen=True, slots=True)
class UpdatedSession:
    """A session as it is stored after a change."""

    session_id: str
    """The session, a new one if the call named none."""
    context: dict[str, Any]
    recent_items: tuple[ContextItem, ...]


@dataclass(frozen=True, slots=True)
class SourceQuote:
    """A message that a memory was learnt from, with its neighbours."""

    conversation_id: str
    title: str
    message_id: str
    before: Message | None
    message: Message | None
    """None if it cannot be read, is no longer stored, or is far back in a long conversation."""
    after: Message | None


@dataclass(frozen=True, slots=True)
class Proof:
    """A memory, and the words that it rests on."""

    memory: Memory
    quotes: tuple[SourceQuote, ...]
    """In the order in which they were learnt from; empty for what was saved by hand."""
