"""Single values of an answer: contents, labels, entities and times, within their bounds."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Any

from hitherto_extraction.pipeline.answer import (
    LABEL_CHARACTERS,
    MAX_CONTENT_BYTES,
    MAX_EVENT_CHARACTERS,
    MAX_LABELS,
    EntityName,
)
from hitherto_extraction.pipeline.free_json import text_of
from hitherto_shared.models import ENTITY_TYPES
from hitherto_shared.text.normalise import has_visible, tag_key


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
