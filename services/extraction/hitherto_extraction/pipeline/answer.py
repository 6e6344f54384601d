"""A checked answer of the model: new memories, changes of known ones, profile and summary.

Contents, labels, entities and times are within their bounds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from hitherto_extraction.pipeline.free_json import text_of
from hitherto_shared.models import ENTITY_TYPES
from hitherto_shared.text.graphemes import beginning
from hitherto_shared.text.normalise import has_visible, tag_key

MAX_CONTENT_BYTES = 8 * 1024
MAX_EVENT_CHARACTERS = 200
MAX_LABELS = 32
"""Maximum number of tags, keywords or entities of a memory; existing ones keep their positions."""
LABEL_CHARACTERS = 64
"""Maximum length of a tag or keyword; longer ones are dropped."""
_PERIOD = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?")
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

    `questions` are those that its words answer; `same_as` is the local id of the known memory that
    says the same.
    """

    index: int
    type: str
    content: str
    detail: str
    importance: float
    confidence: str
    tags: tuple[str, ...]
    keywords: tuple[str, ...]
    entities: tuple[EntityName, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    source_ids: tuple[str, ...] = ()
    valid_from: datetime | None = None
    origin: str | None = None
    questions: tuple[str, ...] = ()
    same_as: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Cited:
    """What a model cites for a change: local message ids and words copied from one of them.

    Attributes:
        item: The position of the change in the reply, such as `updated_memories[0]`.
        source_ids: None if it names none; empty if it names some, none of which was in the prompt.
        quote: The copied words; empty if there are none.
    """

    item: str
    source_ids: tuple[str, ...] | None
    quote: str


@dataclass(frozen=True, slots=True)
class UpdatedItem:
    """A new wording or importance of a known memory; None keeps the old value.

    `index` is its position in the reply; `detail` holds the full text if the content had to be cut.
    """

    index: int
    cited: Cited
    memory: str
    content: str | None
    importance: float | None
    confidence: str | None
    tags: tuple[str, ...]
    detail: str = ""
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClosedItem:
    """A known memory that is contradicted, an achieved goal, or what the user asks to forget.

    `by` is the index of the new item responsible. What is to be forgotten may be a new item as
    well, at the index `new`.
    """

    cited: Cited
    memory: str = ""
    by: int | None = None
    reason: str = ""
    new: int | None = None


@dataclass(frozen=True, slots=True)
class ProfileItem:
    """A value of the profile that was said, or that `ended`.

    `in_own_words` marks one in the form of earlier prompts, which cites no words: the user must
    have said the value itself.
    """

    cited: Cited
    path: tuple[str, ...]
    value: Any
    ended: bool = False
    in_own_words: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole checked reply.

    Attributes:
        dropped: How much of the reply was dropped.
        refused: The items among that, each with the reason.
        skipped: Whether there is no reply, as a content filter refuses what was said.
    """

    new: Sequence[NewItem] = ()
    updated: Sequence[UpdatedItem] = ()
    contradicted: Sequence[ClosedItem] = ()
    achieved: Sequence[ClosedItem] = ()
    forgotten: Sequence[ClosedItem] = ()
    profile: Sequence[ProfileItem] = ()
    summary: Mapping[str, Any] | None = None
    dropped: int = 0
    refused: Sequence[tuple[str, str]] = ()
    skipped: bool = False


def shortened(content: str, detail: str) -> tuple[str, str]:
    """The content within its limit, with the full text as detail unless there is one."""
    if len(content) <= MAX_EVENT_CHARACTERS:
        return content, detail
    return beginning(content, MAX_EVENT_CHARACTERS - 1).rstrip() + "…", detail or content


def content_of(value: Any) -> str | None:
    """A text that can be seen and is within `MAX_CONTENT_BYTES`; None otherwise."""
    text = text_of(value)
    return text if has_visible(text) and len(text.encode()) <= MAX_CONTENT_BYTES else None


def name_of(value: Any) -> str:
    """A lower-case name such as `fact`, which models also write as `Fact`; empty for none."""
    return value.strip().lower() if isinstance(value, str) else ""


def share_of(value: Any) -> float | None:
    """A number, clamped to 0..1; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return float(min(1, max(0, value)))


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


def moment_of(value: Any, zone: tzinfo = UTC, *, end: bool = False) -> datetime | None:
    """A date or time in ISO 8601, from 1900 to 2200; None otherwise.

    A year, a month or a day is one of the person's zone, and means its first moment; with `end`,
    the first moment after it.
    """
    if not isinstance(value, str):
        return None
    try:
        if period := _PERIOD.fullmatch(value.strip()):
            year, month, day = (int(part) if part else 0 for part in period.groups())
            first = date(year, month or 1, day or 1)
            if end:
                first = _after(first, month=bool(month), day=bool(day))
            found = datetime.combine(first, time(), zone)
        else:
            found = datetime.fromisoformat(value.strip())
            found = found if found.tzinfo else found.replace(tzinfo=zone)
        found = found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return found if 1900 <= found.astimezone(zone).year <= 2200 else None


def _after(first: date, *, month: bool, day: bool) -> date:
    """The first day after a day, a month or a year."""
    if day:
        return first + timedelta(days=1)
    if month and first.month < 12:
        return first.replace(month=first.month + 1)
    return date(first.year + 1, 1, 1)
