"""Validates incoming memories; reports every violation at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from hitherto.v1 import memory_pb2
from hitherto.v1 import memory_service_pb2 as pb
from hitherto_extraction.curation.correcting import FIELDS, STRUCTS, Correction
from hitherto_extraction.curation.replacing import MAX_REPLACED
from hitherto_extraction.curation.saving import StatementToSave
from hitherto_extraction.handlers.answering import read_update_mask
from hitherto_extraction.pipeline.answer import (
    EVENT_TYPES,
    LABEL_CHARACTERS,
    MAX_CONTENT_BYTES,
    MAX_EVENT_CHARACTERS,
    MAX_LABELS,
    NewItem,
    labels,
)
from hitherto_extraction.storage.sealed_rows import SENSITIVE_TYPES
from hitherto_shared.convert import CONFIDENCE, MEMORY_SOURCE, MEMORY_TYPE, ORIGIN
from hitherto_shared.validation import Checks

MAX_ENTITY = 256
DEFAULT_TYPE = "fact"
DEFAULT_IMPORTANCE = 0.5


def read_statement(
    checks: Checks, request: pb.SaveMemoryRequest, prefix: str = ""
) -> StatementToSave:
    """A SaveMemory request with all defaults; `prefix` is the path of the request."""
    kind = checks.one_of(f"{prefix}type", request.type, MEMORY_TYPE) or DEFAULT_TYPE
    source = checks.one_of(f"{prefix}source", request.source, MEMORY_SOURCE) or "explicit"
    explicit = source == "explicit"
    content = checks.text(
        f"{prefix}content", request.content, max_bytes=MAX_CONTENT_BYTES, visible=True
    ).strip()
    if kind in EVENT_TYPES and len(content) > MAX_EVENT_CHARACTERS:
        checks.add(
            f"{prefix}content",
            f"must have at most {MAX_EVENT_CHARACTERS} characters for {kind.upper()}, this has "
            f"{len(content)}; put the rest into detail",
        )
    importance = DEFAULT_IMPORTANCE
    if request.HasField("importance"):
        importance = _share(checks, f"{prefix}importance", request.importance)
    origin = checks.one_of(f"{prefix}origin", request.origin, ORIGIN)
    item = NewItem(
        index=0,
        content=content,
        type=kind,
        importance=importance,
        confidence=checks.one_of(f"{prefix}confidence", request.confidence, CONFIDENCE)
        or ("high" if explicit else "medium"),
        detail=checks.text(f"{prefix}detail", request.detail, max_bytes=MAX_CONTENT_BYTES),
        tags=_labels(checks, f"{prefix}tags", request.tags, snake=True),
        keywords=_labels(checks, f"{prefix}keywords", request.keywords, snake=False),
        context=checks.struct(f"{prefix}context", request.context),
    )
    return StatementToSave(
        item,
        source=source,
        origin=origin or ("user" if explicit else "assistant"),
        conversation_id=checks.identifier(
            f"{prefix}conversation_id", request.conversation_id, required=False
        )
        or None,
        metadata=checks.struct(f"{prefix}metadata", request.metadata),
        valid_from=checks.moment(f"{prefix}valid_from", request, "valid_from"),
        expires_at=checks.moment(f"{prefix}expires_at", request, "expires_at"),
        sensitive=request.sensitive or kind in SENSITIVE_TYPES,
        path=prefix,
        replaces=_replaced(checks, f"{prefix}replaces", request.replaces),
    )


def _replaced(checks: Checks, field: str, ids: Sequence[str]) -> tuple[UUID, ...]:
    if len(ids) > MAX_REPLACED:
        checks.add(field, f"must have at most {MAX_REPLACED} items, this has {len(ids)}")
        return ()
    named = [checks.uuid(f"{field}[{place}]", each) for place, each in enumerate(ids)]
    return tuple(dict.fromkeys(named))


def read_correction(checks: Checks, request: pb.UpdateMemoryRequest) -> Correction:
    """An UpdateMemory request: the given values, and the fields they are for."""
    if request.version < 0:
        checks.add("version", "must not be negative; leave it out for no check")
    return Correction(
        values=_values(checks, request.memory),
        paths=read_update_mask(
            checks,
            request,
            request.memory,
            FIELDS,
            deep=STRUCTS,
            example="metadata.project",
            required=True,
        ),
        version=request.version,
    )


def _values(checks: Checks, memory: memory_pb2.Memory) -> dict[str, Any]:
    """The new values by field, without absent ones."""
    found: dict[str, Any] = _words(checks, memory)
    if memory.HasField("importance"):
        found["importance"] = _share(checks, "memory.importance", memory.importance)
    for name in STRUCTS:
        if memory.HasField(name):  # type: ignore[arg-type]
            found[name] = checks.struct(f"memory.{name}", getattr(memory, name))
    for name in ("valid_from", "valid_to", "expires_at"):
        moment = checks.moment(f"memory.{name}", memory, name)
        if moment is not None:
            found[name] = moment
    if memory.sensitive:
        found["sensitive"] = True
    return found


def _words(checks: Checks, memory: memory_pb2.Memory) -> dict[str, Any]:
    """The values that are texts, lists of texts or enumerated words."""
    found: dict[str, Any] = {
        name: checks.text(
            f"memory.{name}", text, max_bytes=MAX_CONTENT_BYTES, visible=name == "content"
        ).strip()
        for name in ("content", "detail")
        if (text := getattr(memory, name))
    }
    if kind := checks.one_of("memory.type", memory.type, MEMORY_TYPE):
        found["type"] = kind
    if confidence := checks.one_of("memory.confidence", memory.confidence, CONFIDENCE):
        found["confidence"] = confidence
    if memory.tags:
        found["tags"] = _labels(checks, "memory.tags", memory.tags, snake=True)
    if memory.keywords:
        found["keywords"] = _labels(checks, "memory.keywords", memory.keywords, snake=False)
    if memory.entities:
        found["entities"] = checks.texts(
            "memory.entities",
            # What is far too long is refused as it is.
            [
                " ".join(name.split()) if len(name) <= 4 * MAX_ENTITY else name
                for name in memory.entities
            ],
            maximum=MAX_LABELS,
            max_chars=MAX_ENTITY,
        )
    return found


def _labels(checks: Checks, field: str, values: Any, *, snake: bool) -> tuple[str, ...]:
    # Blanks around a label do not count; one that is blank altogether is refused.
    given = [value.strip() or value for value in values]
    found = checks.texts(field, given, maximum=MAX_LABELS, max_chars=LABEL_CHARACTERS)
    return labels(found, snake=snake)


def _share(checks: Checks, field: str, value: float) -> float:
    if not math.isfinite(value) or not 0 <= value <= 1:
        checks.add(field, "must be a number from 0 to 1")
    return value
