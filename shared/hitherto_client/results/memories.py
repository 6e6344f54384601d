"""Memories, profiles, and what happened to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hitherto_client.words import (
    Confidence,
    EntityType,
    HistoryEventKind,
    MemorySource,
    MemoryStatus,
    MemoryType,
    Origin,
)


@dataclass(frozen=True, slots=True)
class MemorySourceRef:
    """A message that a memory was learnt from."""

    conversation_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a memory may no longer hold: something else has changed."""

    because_memory_id: str
    """The memory whose change makes it uncertain; empty if that is gone."""
    reason: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The words of a message that state a memory, or that changed it."""

    conversation_id: str
    message_id: str
    quote: str


@dataclass(frozen=True, slots=True)
class Memory:
    """One statement that is remembered about a user."""

    id: str
    user_id: str
    type: MemoryType
    content: str
    """The statement, in a sentence."""
    detail: str
    """The full text behind it; empty if there is none."""
    importance: float
    """From 0 to 1."""
    confidence: Confidence
    source: MemorySource
    origin: Origin
    status: MemoryStatus
    tags: tuple[str, ...]
    keywords: tuple[str, ...]
    entities: tuple[str, ...]
    """Names of the people, projects and things that it mentions."""
    conversation_id: str
    """The conversation that it was first learnt from; empty for one saved by hand."""
    source_message_ids: tuple[str, ...]
    sources: tuple[MemorySourceRef, ...]
    """The messages that it was learnt from."""
    context: dict[str, Any]
    """The circumstances, as free JSON."""
    metadata: dict[str, Any]
    """The caller's own JSON."""
    superseded_by: str
    """The id of the memory that replaced it; empty while it is in force."""
    supersedes: tuple[str, ...]
    access_count: int
    last_accessed_at: datetime | None
    created_at: datetime | None
    updated_at: datetime | None
    valid_from: datetime | None
    """Since when it has been true."""
    valid_to: datetime | None
    """Until when it was true; None if it still is."""
    expires_at: datetime | None
    """When reads stop returning it; None for never."""
    version: int
    """1 for a new memory, and 1 more with every change."""
    job_id: str
    """The job that learnt it; empty for one saved by hand."""
    sensitive: bool
    doubt: Doubt | None = None
    """Why it may no longer hold; None while it is certain."""
    may_replace: tuple[str, ...] = ()
    """Older memories that it probably replaces, although nothing confirms it yet."""
    last_confirmed_at: datetime | None = None
    """When it was last said again."""
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class AlsoStates:
    """Something else that states what a memory states; one of the first three is set."""

    memory_id: str
    profile_path: str
    """A value of the profile, such as `facts.personal.location`."""
    conversation_id: str
    """A conversation, whose messages and summary a context may still show."""
    text: str
    """The words there."""


@dataclass(frozen=True, slots=True)
class ChangedMemory(Memory):
    """A memory that was corrected or forgotten, and what else states its earlier words."""

    also_states: tuple[AlsoStates, ...] = ()
    """What still states them. `carry_along=True` takes along what says nothing more."""
    carried_along: tuple[AlsoStates, ...] = ()
    """What was taken along."""


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """A memory as it is after it was saved."""

    memory: Memory
    deduplicated: bool
    """True if the user had a memory with the same meaning, which is now this one."""
    near: tuple[Memory, ...] = ()
    """Active memories that say something near and other; the nearest first."""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """One change of a memory or a profile."""

    id: str
    kind: HistoryEventKind
    actor: str
    """Who made the change."""
    reason: str
    job_id: str
    created_at: datetime | None
    version: int
    before: dict[str, Any]
    """The values before the change."""
    after: dict[str, Any]
    """The values after it."""
    related_memory_id: str
    """The other memory of a contradiction or merge; empty if there is none."""


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """Where a value of a profile comes from."""

    conversation_id: str
    message_id: str
    """The message that states the value."""
    said_at: datetime | None
    memory_ids: tuple[str, ...]
    """The memories that were learnt from the same words; the value goes when they all end."""
    quote: str
    """The words."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known about a user as a person."""

    user_id: str
    department: str
    summary: str
    current_projects: tuple[str, ...]
    preferences: dict[str, Any]
    frequent_intents: tuple[str, ...]
    access_level: str
    facts: dict[str, Any]
    """By group, such as `personal` and `technical_context`."""
    metadata: dict[str, Any]
    version: int
    """0 for a user without a profile."""
    last_extracted_at: datetime | None
    updated_at: datetime | None
    sources: dict[str, ProfileSource] = field(default_factory=dict)
    """The origin of values by path, such as `facts.personal.location`; an item of a list has the
    path of the list, `#` and the item. Values set by hand have none."""


@dataclass(frozen=True, slots=True)
class Preference:
    """A preference that was learnt from behaviour."""

    type: str
    key: str
    value: Any
    confidence: float
    """From 0 to 1."""
    observations: int
    """How often it was observed."""
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a user's reaction to an answer changed."""

    preferences: tuple[Preference, ...]
    """The preferences that it strengthened, weakened or taught."""
    memory_ids: tuple[str, ...]
    """The memories whose importance it changed."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A person or thing that a user's memories, messages or documents mention."""

    id: str
    name: str
    type: EntityType
    aliases: tuple[str, ...]
    mention_count: int
    metadata: dict[str, Any]
