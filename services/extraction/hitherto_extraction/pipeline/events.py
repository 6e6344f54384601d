"""What the history says of a plan, without the words of what is sealed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from hitherto_extraction.pipeline.closing import CHALLENGES
from hitherto_extraction.pipeline.operations import Closure, Plan, Rewrite
from hitherto_extraction.storage.known_memories import Known
from hitherto_extraction.storage.ledger import Event


def events_of(
    plan: Plan, *, reason: str, sealed: frozenset[UUID], encrypts: bool
) -> Sequence[Event]:
    """The history of a plan.

    Args:
        plan: What is written.
        reason: Why memories are new.
        sealed: Memories of which no words are told.
        encrypts: The user encrypts: no words of a model's are told either.
    """

    def shown(known: Known) -> dict[str, Any]:
        return _shown(known, sealed=known.memory_id in sealed)

    created = [
        Event(
            "memory",
            "created",
            1,
            reason,
            made.memory_id,
            after={
                "type": made.item.type,
                **({} if made.memory_id in sealed else {"content": made.item.content}),
                "status": made.status,
            },
        )
        for made in plan.creations
    ]
    rewritten = [
        Event(
            "memory",
            change.action,
            change.after.version,
            change.reason,
            change.before.memory_id,
            before=shown(change.before),
            after=shown(change.after),
            related=_challenged(plan, change) if change.action == "quarantined" else None,
        )
        for change in plan.rewrites
    ]
    quarantined = [
        Event(
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
        Event(
            "memory",
            closure.status,
            closure.before.version + 1,
            _told_reason(closure, sealed, encrypts=encrypts),
            closure.before.memory_id,
            before=shown(closure.before),
            after={
                **shown(closure.before),
                "status": closure.status,
                "importance": closure.importance,
                "superseded_by": str(closure.superseded_by) if closure.superseded_by else None,
            },
            related=closure.superseded_by,
        )
        for closure in plan.closures
    ]
    return [*created, *quarantined, *rewritten, *closed]


def _challenged(plan: Plan, change: Rewrite) -> UUID | None:
    return next((other for m, other in plan.challenges if m == change.after.memory_id), None)


def _told_reason(closure: Closure, sealed: frozenset[UUID], *, encrypts: bool) -> str:
    """Why a memory ceases to hold; what a model says of it may quote what is sealed."""
    quoted = encrypts or not sealed.isdisjoint({closure.before.memory_id, closure.superseded_by})
    return closure.status if quoted else closure.reason


def _shown(known: Known, *, sealed: bool) -> dict[str, Any]:
    words = {} if sealed else {"content": known.content, "tags": list(known.tags)}
    return {
        "importance": known.importance,
        "confidence": known.confidence,
        "status": known.status,
        **words,
    }
