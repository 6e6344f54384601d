"""A checked answer of the model: new memories, changes of known ones, profile and summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

MAX_CONTENT_BYTES = 8 * 1024
MAX_EVENT_CHARACTERS = 200
MAX_LABELS = 32
"""Maximum number of tags, keywords or entities of a memory; existing ones keep their positions."""
LABEL_CHARACTERS = 64
"""Maximum length of a tag or keyword; longer ones are dropped."""
EVENT_TYPES = ("question", "problem", "learning")
"""Types with a content limit of `MAX_EVENT_CHARACTERS`; `detail` holds the full text."""


class UnusableAnswer(Exception):
    """The reply is unusable: prose, an empty object, broken JSON, or no item of a known form."""


@dataclass(frozen=True, slots=True)
class EntityName:
    """An entity in the model's words."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class NewItem:
    """One new memory. `source_ids` are local message ids; `index` is its position in the reply.

    `questions` are those that its words answer.
    """

    index: int
    type: str
    content: str
    detail: str
    importance: float
    confidence: str
    tags: tuple[str, ...]
    keywords: tuple[str, ...]
    entities: tuple[EntityName, ...]
    context: Mapping[str, Any]
    source_ids: tuple[str, ...]
    valid_from: datetime | None
    origin: str | None
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdatedItem:
    """A new wording or importance of a known memory; None keeps the old value.

    `detail` holds the full text if the content had to be cut.
    """

    memory: str
    content: str | None
    importance: float | None
    confidence: str | None
    tags: tuple[str, ...]
    source_ids: tuple[str, ...] | None
    detail: str = ""
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClosedItem:
    """A known memory that is contradicted, or an achieved goal, and the new item responsible."""

    memory: str
    by: int | None
    reason: str
    source_ids: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole checked reply.

    The source ids of a change are None if the reply names none; an empty tuple means that it names
    some, none of which was in the prompt.
    """

    new: Sequence[NewItem] = ()
    updated: Sequence[UpdatedItem] = ()
    contradicted: Sequence[ClosedItem] = ()
    achieved: Sequence[ClosedItem] = ()
    profile: Mapping[str, Any] | None = None
    profile_source_ids: tuple[str, ...] | None = None
    summary: Mapping[str, Any] | None = None
    dropped: int = 0
