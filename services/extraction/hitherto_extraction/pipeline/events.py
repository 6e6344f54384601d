"""Records a plan in the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.closures import CHALLENGES
from hitherto_extraction.pipeline.operations import Closure, Creation, Occasion, Plan, Rewrite
from hitherto_extraction.pipeline.sealed_memories import is_sensitive
from hitherto_extraction.storage import editing
from hitherto_extraction.storage.known_memories import CurrentMemory
from hitherto_extraction.storage.ledger import ChangeEvent
from hitherto_shared.models import Memory


def events_of(plan: Plan, occasion: Occasion) -> Sequence[ChangeEvent]:
    """The history of a plan. If the user has encryption on, a model's words are left out."""
    created = [
        ChangeEvent(
            "memory",
            "created",
            1,
            occasion.reason,
            made.memory_id,
            after=editing.shown_of_new(_made(made, occasion)),
        )
        for made in plan.creations
    ]
    rewritten = [
        ChangeEvent(
            "memory",
            change.action,
            change.after.version,
            change.reason,
            change.before.memory_id,
            before={**_shown(change.before), **occasion.joined[0]},
            after={**_shown(change.after), **occasion.joined[1]},
            related=_challenged(plan, change) if change.action == "quarantined" else None,
        )
        for change in plan.rewrites
    ]
    quarantined = [
        ChangeEvent(
            "memory",
            "quarantined",
            1,
            CHALLENGES if made.challenges else "reads as an instruction to the assistant",
            made.memory_id,
            after={"status": made.status},
            related=next(iter(made.challenges), None),
        )
        for made in plan.creations
        if made.status == "quarantined"
    ]
    closed = [
        ChangeEvent(
            "memory",
            closure.status,
            closure.before.version + 1,
            _stored_reason(closure, plan.sealed, encrypts=occasion.encrypts),
            closure.before.memory_id,
            before=_shown(closure.before),
            after={
                **_shown(closure.before),
                "status": closure.status,
                "importance": closure.importance,
                "valid_to": max(closure.valid_to, closure.before.valid_from).isoformat(),
                "superseded_by": str(closure.superseded_by) if closure.superseded_by else None,
            },
            related=closure.superseded_by,
        )
        for closure in plan.closures
    ]
    events = (*created, *quarantined, *rewritten, *closed)
    return [replace(event, sealed=event.memory_id in plan.sealed) for event in events]


def _challenged(plan: Plan, change: Rewrite) -> UUID | None:
    return next((other for m, other in plan.challenges if m == change.after.memory_id), None)


def _stored_reason(closure: Closure, sealed: frozenset[UUID], *, encrypts: bool) -> str:
    """Why a memory ends; a model's reason may quote sealed text."""
    quoted = encrypts or not sealed.isdisjoint({closure.before.memory_id, closure.superseded_by})
    return closure.status if quoted else closure.reason


def _made(made: Creation, occasion: Occasion) -> Memory:
    item = made.item
    return Memory(
        memory_id=made.memory_id,
        user_id="",
        type=item.type,
        content=item.content,
        importance=item.importance,
        confidence=item.confidence,
        source=occasion.source,
        origin=made.evidence.origin,
        status=made.status,
        valid_from=made.valid_from,
        created_at=occasion.at,
        updated_at=occasion.at,
        detail=item.detail,
        tags=item.tags,
        keywords=item.keywords,
        context=item.context,
        metadata=occasion.kept.get("metadata", {}),
        sensitive=is_sensitive(item.type, occasion.marked),
        conversation_id=occasion.conversation_id,
        valid_to=made.valid_to,
        expires_at=occasion.kept.get("expires_at"),
        superseded_by=made.superseded_by,
    )


def _shown(known: CurrentMemory) -> dict[str, Any]:
    return {
        "importance": known.importance,
        "confidence": known.confidence,
        "origin": known.origin,
        "status": known.status,
        "valid_to": known.valid_to.isoformat() if known.valid_to else None,
        "content": known.content,
        "detail": known.detail,
        "tags": list(known.tags),
        "keywords": list(known.keywords),
    }
