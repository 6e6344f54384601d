"""One memory: why it is known, since when it is true, what happened to it; and its corrections."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from starlette.responses import Response

from hitherto_client.console.failures import Failure
from hitherto_client.console.fields import FieldRefused
from hitherto_client.console.pages.memories import CONFIDENCES, TYPES
from hitherto_client.console.rendering import iso_day, now
from hitherto_client.console.visits import PAGE_SIZE, Visit, change, look, or_again
from hitherto_client.results import ChangedMemory, Memory

_MOST_SOURCES = 6


async def _memory(visit: Visit, problem: Failure | None = None) -> Response:
    proof = await visit.client.why(visit.user, visit.named("memory_id"))
    if proof is None:
        return visit.fail(
            Failure(404, "There is no such memory", "It may belong to another person.")
        )
    memory = proof.memory
    history, related = await asyncio.gather(
        visit.client.memory_history(visit.user, memory.id, page_size=PAGE_SIZE).page(
            visit.address.text("page")
        ),
        _related(visit, memory),
    )
    first, last = _ends(memory, related)
    return visit.page(
        "memory.html",
        problem,
        memory=memory,
        history=history,
        quotes=proof.quotes,
        related=related,
        first=first,
        last=last,
        shown=_texts(memory),
        holds=visit.form.over(_texts(memory)),
        types=TYPES,
        confidences=CONFIDENCES,
    )


async def _related(visit: Visit, memory: Memory) -> dict[str, list[Memory]]:
    """What replaced it, and what it replaced."""
    after = [memory.superseded_by] if memory.superseded_by else []
    before = list(memory.supersedes[:_MOST_SOURCES])
    found = await asyncio.gather(
        *(visit.client.get_memory(visit.user, one) for one in [*after, *before])
    )
    return {
        "after": [one for one in found[: len(after)] if one],
        "before": [one for one in found[len(after) :] if one],
    }


def _ends(memory: Memory, related: dict[str, list[Memory]]) -> tuple[datetime, datetime]:
    """The times between which the validity of these memories is drawn."""
    shown = [memory, *related["before"], *related["after"]]
    last = now()
    starts = [start for one in shown if (start := one.valid_from or one.created_at)]
    return min(starts, default=last), last


def _texts(memory: Memory) -> dict[str, str]:
    """What the editor of a memory shows, by field."""
    return {
        "content": memory.content,
        "detail": memory.detail,
        "type": memory.type,
        "confidence": memory.confidence,
        "importance": f"{memory.importance:.2f}",
        "tags": ", ".join(memory.tags),
        "entities": "\n".join(memory.entities),
        "valid_from": iso_day(memory.valid_from),
        "valid_to": iso_day(memory.valid_to),
        "expires_at": iso_day(memory.expires_at),
    }


_CLEARABLE = ("detail", "tags", "entities", "valid_to", "expires_at")


async def _correct(visit: Visit) -> Response:
    form = visit.form
    given: dict[str, Any] = {
        "content": form.text("content"),
        "detail": form.text("detail"),
        "type": form.word("type", TYPES),
        "confidence": form.word("confidence", CONFIDENCES),
        "importance": form.share("importance"),
        "tags": form.listed("tags"),
        "entities": form.lines("entities"),
        "valid_from": form.day("valid_from"),
        "valid_to": form.day("valid_to"),
        "expires_at": form.day("expires_at"),
    }
    version = form.whole("version", least=0, most=2**31 - 1) or 0
    memory_id = visit.named("memory_id")
    edited = {name: value for name, value in given.items() if form.edited(name)}
    cleared = [name for name, value in edited.items() if name in _CLEARABLE and not value]
    changed = {
        name: value for name, value in edited.items() if name not in cleared and value is not None
    }
    if not changed and not cleared:
        return visit.go(f"/memories/{memory_id}", "Nothing was changed.")
    after = await visit.client.update_memory(
        visit.user, memory_id, **changed, clear=cleared, version=version
    )
    return _done(visit, after, "Corrected. The earlier version is in the history.")


async def _forget(visit: Visit) -> Response:
    memory_id = visit.named("memory_id")
    after = await visit.client.forget_memory(
        visit.user, memory_id, reason=visit.form.text("reason")
    )
    notice = "Forgotten. Earlier messages will not bring it back."
    return _done(visit, after, notice, undo=f"/memories/{memory_id}/restore")


def _done(visit: Visit, after: ChangedMemory, notice: str, undo: str = "") -> Response:
    """Back to the memory; or first to what else states the earlier words, to take it along."""
    if not after.also_states:
        return visit.go_back(f"/memories/{after.id}", notice, undo)
    visit.tell(notice, undo)
    return visit.page("also_states.html", memory=after, stated=after.also_states, rest=False)


async def _carry(visit: Visit) -> Response:
    memory_id = visit.named("memory_id")
    memory = await visit.client.get_memory(visit.user, memory_id)
    if memory is None or memory.status == "forgotten":
        after = await visit.client.forget_memory(visit.user, memory_id, carry_along=True)
    else:
        after = await visit.client.update_memory(
            visit.user, memory_id, content=memory.content, carry_along=True
        )
    if not after.also_states:
        return visit.go(f"/memories/{memory_id}", "Taken along: the assistant is no longer told.")
    visit.tell(f"{len(after.carried_along)} taken along.")
    return visit.page("also_states.html", memory=after, stated=after.also_states, rest=True)


async def _restore(visit: Visit) -> Response:
    memory_id = visit.named("memory_id")
    await visit.client.restore_memory(visit.user, memory_id, reason=visit.form.text("reason"))
    return visit.go_back(f"/memories/{memory_id}", "Restored.")


async def _review(visit: Visit) -> Response:
    memory_id = visit.named("memory_id")
    decision = visit.form.word("decision", ("approve", "reject"))
    if decision is None:
        raise FieldRefused("Say whether to approve or to reject it.")
    approve = decision == "approve"
    await visit.client.review_memory(
        visit.user, memory_id, approve=approve, reason=visit.form.text("reason")
    )
    path = f"/memories/{memory_id}"
    if approve:
        return visit.go_back(path, "Approved: the assistant may be told.")
    return visit.go_back(path, "Rejected and forgotten.", undo=f"{path}/restore")


ROUTES = (
    look("/memories/{memory_id}", _memory),
    change("/memories/{memory_id}/correct", or_again(_correct, _memory)),
    change("/memories/{memory_id}/forget", _forget),
    change("/memories/{memory_id}/carry", _carry),
    change("/memories/{memory_id}/restore", _restore),
    change("/memories/{memory_id}/review", _review),
)
