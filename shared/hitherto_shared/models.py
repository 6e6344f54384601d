"""The models of both services: immutable data classes, with the words that the schema stores.

`sealed` holds the sealed values of a user with encryption on: the fields are empty until these are
opened, which sets `sealed` to None. `memo` is a dictionary if the item outlives a call: readers put
into it what they derive from the item alone, each under a key of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from hitherto.v1 import memory_pb2

MEMORY_TYPES = tuple(
    name.removeprefix("MEMORY_TYPE_").lower() for name in memory_pb2.MemoryType.keys()[1:]
)
CONFIDENCES = ("low", "medium", "high")
ORIGINS = ("user", "assistant", "tool", "document", "operator")
OUTCOMES = ("resolved", "ongoing", "needs_followup")
ENTITY_TYPES = ("person", "project", "topic", "company", "place", "other")
CURRENT_STATUSES = ("active", "achieved")
"""Statuses that count as known today; the default of every read."""
HIDDEN_STATUSES = frozenset({"quarantined", "forgotten"})
"""Statuses of what is not told, neither by the memory nor by the words that it was learnt from."""

Memo = dict[Hashable, Any]
"""What was derived from an item."""

FINAL_JOB_STATES = ("succeeded", "dead", "cancelled")


@dataclass(frozen=True, slots=True)
class Scope:
    """The tenant and user that a statement may access."""

    tenant_id: str
    user_id: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters `tenant_id` and `user_id` of every statement about a user."""
        return {"tenant_id": self.tenant_id, "user_id": self.user_id}

    def bind(self, **values: Any) -> dict[str, Any]:
        """The parameters of a statement about a user: these and `parameters`, which win."""
        return {**values, "tenant_id": self.tenant_id, "user_id": self.user_id}


# Immutable by convention, but not frozen: a reply has dozens, and frozen ones take four times as
# long.
@dataclass(slots=True, unsafe_hash=True)
class SourceRef:
    """A message from which a memory came, by the caller's ids."""

    conversation_id: str
    message_id: str


# Not frozen for the same reason.
@dataclass(slots=True)
class Memory:
    """The current version of one memory.

    `doubt` has the keys `because` (a memory id or None), `reason` and `since`; `evidence` the words
    of messages that state the memory or changed it. `worded_in` is the version with which its words
    came.
    """

    memory_id: UUID
    user_id: str
    type: str
    content: str
    importance: float
    confidence: str
    source: str
    origin: str
    status: str
    valid_from: datetime
    created_at: datetime
    updated_at: datetime
    detail: str = ""
    tags: Sequence[str] = ()
    keywords: Sequence[str] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sensitive: bool = False
    conversation_id: str | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None
    superseded_by: UUID | None = None
    supersedes: Sequence[UUID] = ()
    version: int = 1
    job_id: UUID | None = None
    access_count: int = 0
    last_accessed_at: datetime | None = None
    sealed: bytes | None = field(default=None, repr=False)
    sources: Sequence[SourceRef] = ()
    entities: Sequence[str] = ()
    memo: Memo | None = field(default=None, repr=False, compare=False)
    doubt: Mapping[str, Any] | None = None
    may_replace: Sequence[UUID] = ()
    last_confirmed_at: datetime | None = None
    worded_in: int = 1
    evidence: Sequence[tuple[SourceRef, str]] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """The profile of a user. Version 0 means that there is none yet.

    `sources` says where values come from, by path; an item of a list has the path of the list, `#`
    and the item.
    """

    user_id: str
    department: str = ""
    summary: str = ""
    current_projects: Sequence[str] = ()
    preferences: Mapping[str, Any] = field(default_factory=dict)
    frequent_intents: Sequence[str] = ()
    access_level: str = "standard"
    facts: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    last_extracted_at: datetime | None = None
    updated_at: datetime | None = None
    sealed: bytes | None = field(default=None, repr=False)
    memo: Memo | None = field(default=None, repr=False, compare=False)
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


NEUTRAL_TITLE = "Conversation"
"""Title of a conversation for which neither the model nor the user has provided a word."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a conversation.

    Attributes:
        withheld: The beginnings of memories learnt from it that are forgotten or in quarantine;
            empty texts for sealed ones.
        partly_until: When the earliest-ending memory learnt from it stopped, or stops, being true,
            if something said after the conversation contradicts it.
        pending_messages: The messages of user and assistant that no job has read.
        learns_at: When silence lets a job read them.
    """

    conversation_id: str
    user_id: str
    title: str
    summary: str
    outcome: str
    message_count: int
    created_at: datetime
    updated_at: datetime
    key_topics: Sequence[str] = ()
    technical_topics: Sequence[str] = ()
    followup_suggestions: Sequence[str] = ()
    last_said_at: datetime | None = None
    sealed: bytes | None = field(default=None, repr=False)
    withheld: Sequence[str] = field(default=(), repr=False)
    partly_until: datetime | None = None
    memo: Memo | None = field(default=None, repr=False, compare=False)
    pending_messages: int = 0
    learns_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, for readers."""

    conversation_id: str
    message_id: str
    role: str
    name: str
    content: str
    said_at: datetime
    context_items: Sequence[Mapping[str, Any]] = ()
    pending_action_ids: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sealed: bytes | None = field(default=None, repr=False)
    memo: Memo | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Entity:
    """A person or thing that the user mentions."""

    entity_id: UUID
    name: str
    type: str
    mention_count: int
    aliases: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    memo: Memo | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Preference:
    """One preference inferred from a user's behaviour, with its confidence (0 to 1)."""

    type: str
    key: str
    value: Any
    confidence: float
    observations: int
    updated_at: datetime
    memo: Memo | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PendingAction:
    """An action that an assistant proposed. `result` is None until one is reported."""

    action_id: str
    session_id: str
    type: str
    params: Mapping[str, Any]
    description: str
    state: str
    result: Mapping[str, Any] | None
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Job:
    """One job as its owner sees it."""

    job_id: UUID
    tenant_id: str
    kind: str
    state: str
    user_id: str | None
    conversation_id: str | None
    attempt: int
    max_attempts: int
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    range_from: int | None = None
    range_to: int | None = None
    done_to: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def final(self) -> bool:
        """Whether the job has ended for good, unless it is retried."""
        return self.state in FINAL_JOB_STATES
