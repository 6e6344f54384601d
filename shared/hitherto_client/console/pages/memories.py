"""A person's memories: listed, searched, on a timeline, as an assistant is told them; new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from starlette.responses import Response

from hitherto_client.console.failures import Failure
from hitherto_client.console.fields import Fields
from hitherto_client.console.rendering import now
from hitherto_client.console.visits import PAGE_SIZE, Visit, change, look, or_again
from hitherto_client.words import Confidence, MemorySource, MemoryStatus, MemoryType, PromptTemplate

TYPES: tuple[str, ...] = get_args(MemoryType)
STATUSES: tuple[str, ...] = get_args(MemoryStatus)
SOURCES: tuple[str, ...] = get_args(MemorySource)
CONFIDENCES: tuple[str, ...] = get_args(Confidence)
_ORDERS = {"created_at": "newest", "importance": "most important", "last_accessed_at": "last used"}

_SEARCH_LIMIT = 30
_TIMELINE_SIZE = 200
_ON_TIMELINE: tuple[MemoryStatus, ...] = (
    "active",
    "achieved",
    "contradicted",
    "superseded",
    "archived",
)


async def _memories(visit: Visit) -> Response:
    given = visit.address
    query = given.text("q")
    filters: dict[str, Any] = {
        argument: read(given, name) for name, (argument, read) in _FILTERS.items()
    }
    values: dict[str, Any] = {"query": query, "chosen": _chosen(given), "order": ""}
    if query:
        values["results"] = await visit.client.search(
            visit.user, query, limit=_SEARCH_LIMIT, explain=True, count_access=False, **filters
        )
    else:
        order = given.word("order", _ORDERS) or "created_at"
        values["order"] = order
        listed = visit.client.memories(visit.user, order_by=order, page_size=PAGE_SIZE, **filters)
        values["found"] = await listed.page(given.text("page"))
    return visit.page("memories.html", **values, **_choices())


_FILTERS: Mapping[str, tuple[str, Callable[[Fields, str], Any]]] = {
    "type": ("types", lambda given, name: given.words(name, TYPES)),
    "status": ("statuses", lambda given, name: given.words(name, STATUSES)),
    "source": ("sources", lambda given, name: given.words(name, SOURCES)),
    "tags": ("tags", Fields.listed),
    "entity": ("entity", Fields.text),
    "conversation": ("conversation", Fields.text),
    "confidence": ("confidence_min", lambda given, name: given.word(name, CONFIDENCES)),
    "after": ("created_after", Fields.day),
    "before": ("created_before", Fields.day),
    "as_of": ("as_of", Fields.day),
    "known_at": ("known_at", Fields.day),
}
"""What a list and a search are limited to: of each field its argument, and how it is read."""


def _chosen(given: Fields) -> dict[str, Any]:
    """The filters as the form shows them again, and the next page repeats them."""
    lists = {name: given.given.get(name, []) for name in ("type", "status", "source")}
    return {name: lists.get(name, given.text(name)) for name in _FILTERS}


def _choices() -> dict[str, Any]:
    return {
        "types": TYPES,
        "statuses": STATUSES,
        "sources": SOURCES,
        "confidences": CONFIDENCES,
        "orders": _ORDERS,
    }


async def _timeline(visit: Visit) -> Response:
    found = await visit.client.memories(
        visit.user, statuses=_ON_TIMELINE, page_size=_TIMELINE_SIZE
    ).page()
    dated = sorted(
        (memory for memory in found.items if memory.valid_from),
        key=lambda memory: memory.valid_from or now(),
    )
    last = now()
    first = dated[0].valid_from if dated else last
    return visit.page("timeline.html", found=found, dated=dated, first=first, last=last)


async def _new(visit: Visit, problem: Failure | None = None) -> Response:
    return visit.page("new_memory.html", problem, form=visit.form, **_choices())


async def _save(visit: Visit) -> Response:
    form = visit.form
    saved = await visit.client.save_memory(
        visit.user,
        form.text("content"),
        type=form.word("type", TYPES),
        detail=form.text("detail"),
        importance=form.share("importance"),
        tags=form.listed("tags"),
        valid_from=form.day("valid_from"),
        expires_at=form.day("expires_at"),
        sensitive=form.ticked("sensitive"),
    )
    known = "This was known already; the memory has a new version."
    return visit.go(f"/memories/{saved.memory.id}", known if saved.deduplicated else "Saved.")


_TEMPLATES = tuple(name for name in get_args(PromptTemplate) if name != "custom")
_MOST_TOKENS = 32_000


async def _told(visit: Visit) -> Response:
    given = visit.address
    template = given.word("template", _TEMPLATES)
    max_tokens = given.whole("max_tokens", least=1, most=_MOST_TOKENS)
    context = await visit.client.get_context(
        visit.user,
        given.text("q"),
        conversation=given.text("conversation"),
        template=template,
        max_tokens=max_tokens,
        as_of=given.day_at_its_end("as_of"),
        known_at=given.day_at_its_end("known_at"),
        # Looking at what would be told must not change it.
        count_access=False,
    )
    return visit.page(
        "told.html",
        query=given.text("q"),
        context=context,
        templates=_TEMPLATES,
        template=template or "",
        max_tokens=max_tokens,
        conversation=given.text("conversation"),
        as_of=given.text("as_of"),
        known_at=given.text("known_at"),
    )


ROUTES = (
    look("/memories", _memories),
    look("/timeline", _timeline),
    look("/memories/new", _new),
    change("/memories/new", or_again(_save, _new)),
    look("/told", _told),
)
