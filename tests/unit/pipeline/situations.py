"""Situations to plan in: what is known, what a reply says, who said it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np

from hitherto_extraction.pipeline.answer import (
    Answer,
    Cited,
    ClosedItem,
    NewItem,
    UpdatedItem,
)
from hitherto_extraction.pipeline.caps import ChangeAllowance, Changes
from hitherto_extraction.pipeline.dedupe import Neighbour
from hitherto_extraction.pipeline.draft import Situation
from hitherto_extraction.pipeline.evidence import Witnesses
from hitherto_extraction.pipeline.operations import Plan
from hitherto_extraction.pipeline.plan import make_plan
from hitherto_extraction.storage.conversations import StoredMessage
from hitherto_extraction.storage.known_memories import CurrentMemory

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EARLIER, LATER = NOON - timedelta(days=1), NOON + timedelta(days=1)
LISBON, BERLIN = "Ana lives in Lisbon", "Ana lives in Berlin"
SAID = "I left Lisbon for Berlin"
"""What every message of a situation says, and every change quotes."""


def new(index: int = 0, content: str = BERLIN, **changes: Any) -> NewItem:
    fields: dict[str, Any] = {
        "index": index, "type": "fact", "content": content, "detail": "", "importance": 0.5,
        "confidence": "high", "tags": (), "keywords": (), "entities": (), "context": {},
        "source_ids": ("m1",), "valid_from": None, "origin": None, **changes,
    }  # fmt: skip
    return NewItem(**fields)


def known(number: int = 1, content: str = LISBON, **changes: Any) -> CurrentMemory:
    fields: dict[str, Any] = {
        "memory_id": UUID(int=number), "version": 1, "type": "fact", "content": content,
        "importance": 0.5, "confidence": "high", "origin": "user", "status": "active", "tags": [],
        "keywords": [], "valid_from": NOON, "valid_to": None, "updated_at": NOON,
        "lexical_no": number, "lexical_length": 4, "said_at": NOON, "detail": "", **changes,
    }  # fmt: skip
    return CurrentMemory(**fields)


def cited(item: str, *, source_ids: Sequence[str] | None = None, quote: str = SAID) -> Cited:
    return Cited(item, None if source_ids is None else tuple(source_ids), quote)


def closed(number: int = 1, by: int | None = 0, reason: str = "", **evidence: Any) -> ClosedItem:
    item = cited(f"contradicted_memories[{number - 1}]", **evidence)
    return ClosedItem(item, f"e{number}", by, reason)


def forgotten(number: int = 1, **evidence: Any) -> ClosedItem:
    return ClosedItem(cited(f"forgotten_memories[{number - 1}]", **evidence), f"e{number}")


def update(
    number: int = 1,
    content: str | None = None,
    *,
    source_ids: Sequence[str] | None = None,
    quote: str = SAID,
    **changes: Any,
) -> UpdatedItem:
    fields: dict[str, Any] = {"importance": None, "confidence": None, "tags": (), **changes}
    item = cited(f"updated_memories[{number - 1}]", source_ids=source_ids, quote=quote)
    return UpdatedItem(number - 1, item, f"e{number}", content, **fields)


def situation(
    *memories: CurrentMemory,
    near: Sequence[CurrentMemory] = (),
    cosine: float | None = 0.95,
    said_at: datetime = LATER,
    roles: Sequence[str] = ("user", "assistant"),
    vectors: Sequence[Sequence[float]] = (),
    active_count: int = 100,
    status_changes: int = 0,
    words: str = "",
    **answer: Any,
) -> Situation:
    """A reply: `memories` are e1, e2… of the prompt, `near` what the first statement meets."""
    return Situation(
        answer=Answer(**answer),
        witnesses=Witnesses(
            "talk",
            {
                f"m{n}": StoredMessage(n, f"c{n}", role, "", f"{SAID}. {words} #{n}", said_at)
                for n, role in enumerate(roles, 1)
            },
        ),
        local_memories={f"e{m.memory_id.int}": m.memory_id for m in memories},
        known={m.memory_id: m for m in [*memories, *near]},
        neighbours={
            0: [
                Neighbour(m.memory_id, m.type, m.content, m.status, cosine, m.updated_at)
                for m in near
            ]
        },
        vectors={i: np.array(v, dtype=np.float32) for i, v in enumerate(vectors)},
        threshold=0.85,
        room=ChangeAllowance(active_count, job=Changes(closed=status_changes), daily=100),
    )


def planned(*memories: CurrentMemory, **given: Any) -> Plan:
    """The plan for such a reply."""
    return make_plan(situation(*memories, **given))


def untouched(plan: Plan) -> bool:
    return not (plan.rewrites or plan.closures or plan.sources or plan.confirmed)


def reasons(plan: Plan) -> list[str]:
    """Why changes of the reply are not made."""
    return [each.reason for each in plan.refusals]
