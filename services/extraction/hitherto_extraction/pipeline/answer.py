"""A checked answer of the model: new memories, changes of known ones, profile and summary.

Contents, labels, entities and times are within their bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from hitherto_extraction.pipeline.free_json import text_of
from hitherto_shared.models import ENTITY_TYPES
from hitherto_shared.text.normalise import has_visible, tag_key

MAX_CONTENT_BYTES = 8 * 1024
MAX_EVENT_CHARACTERS = 200
MAX_LABELS = 32
"""Maximum number of tags, keywords or entities of a memory; existing ones keep their positions."""
LABEL_CHARACTERS = 64
"""Maximum length of a tag or keyword; longer ones are dropped."""
EVENT_TYPES = ("question", "problem", "learning")
"""Types with a content limit of `MAX_EVENT_CHARACTERS`; `detail` holds the full text."""


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


def shortened(content: str, detail: str) -> tuple[str, str]:
    """The content within its limit, with the full text as detail unless there is one."""
    if len(content) <= MAX_EVENT_CHARACTERS:
        return content, detail
    return content[: MAX_EVENT_CHARACTERS - 1].rstrip() + "…", detail or content


def content_of(value: Any) -> str | None:
    """A text that can be seen and is within `MAX_CONTENT_BYTES`; None otherwise."""
    text = text_of(value)
    return text if has_visible(text) and len(text.encode()) <= MAX_CONTENT_BYTES else None


def labels(value: Any, *, snake: bool) -> tuple[str, ...]:
    """Labels without white space and duplicates; tags (`snake`) become lower_snake_case."""
    if not isinstance(value, list):
        return ()
    found = []
    for item in value:
        label = text_of(item)
        if snake:
            label = tag_key(label)
        if label and len(label) <= LABEL_CHARACTERS:
            found.append(label)
    return tuple(dict.fromkeys(found))[:MAX_LABELS]


def entities_of(value: Any) -> tuple[EntityName, ...]:
    """Entities by name and type, each once; an unknown type becomes `other`."""
    if not isinstance(value, list):
        return ()
    found: dict[tuple[str, str], EntityName] = {}
    for item in value:
        if not isinstance(item, dict):
            continue
        name = " ".join(text_of(item.get("name")).split())
        kind = item.get("type")
        kind = kind if isinstance(kind, str) and kind in ENTITY_TYPES else "other"
        if 0 < len(name) <= 256:
            found.setdefault((kind, name), EntityName(name, kind))
    return tuple(found.values())[:MAX_LABELS]


def moment_of(value: Any) -> datetime | None:
    """A date or time in ISO 8601, from 1900 to 2200; None otherwise."""
    if not isinstance(value, str):
        return None
    try:
        if len(value) == len("2026-01-01"):
            found = datetime.combine(date.fromisoformat(value), time(), UTC)
        else:
            found = datetime.fromisoformat(value)
            found = found if found.tzinfo else found.replace(tzinfo=UTC)
            found = found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return found if 1900 <= found.year <= 2200 else None
