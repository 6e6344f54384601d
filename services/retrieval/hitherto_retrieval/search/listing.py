"""Answers a search without a question: the most important items of every requested kind."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from hitherto_retrieval.opening import Opener
from hitherto_retrieval.search.question import Hit, Question, SearchOutcome
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.search.sealed_leg import for_a_list
from hitherto_retrieval.search.whole_results import read_whole
from hitherto_retrieval.storage import memories, newest, past
from hitherto_retrieval.storage.candidate import Key, Kind
from hitherto_retrieval.storage.memories import MemoryPage
from hitherto_retrieval.storage.statement import Statement, ask
from hitherto_shared.database.pool import Connection
from hitherto_shared.models import Scope

_MORE = 4
"""How many times as many items are read if too few of them may be shown."""


async def list_items(
    connection: Connection, scope: Scope, question: Question, opener: Opener | None
) -> SearchOutcome:
    """Memories by importance, then recency of use; then kinds without importance, newest first."""
    read = question.limit
    while True:
        found, more = await _first(connection, scope, question, opener, read)
        if len(found.hits) >= question.limit or not more:
            return replace(found, hits=found.hits[: question.limit])
        # What is not shown takes no place.
        read *= _MORE


async def _first(
    connection: Connection, scope: Scope, question: Question, opener: Opener | None, read: int
) -> tuple[SearchOutcome, bool]:
    """Those of the first `read` items that may be shown, and whether there are more."""
    listed = None
    if "memory" in question.kinds:
        listed = await _memories(connection, scope, question, opener, read)
    pages = [
        newest.page(scope, kind, question.passages, limit=read)
        for kind in question.kinds
        if kind != "memory"
    ]
    await ask(connection, *([listed] if listed is not None else []), *pages)
    keys: list[tuple[Kind, Key]] = []
    if listed is not None:
        keys.extend(("memory", memory_id) for memory_id in listed.answer.ids)
    others = [item for page in pages for item in page.answer[0]]
    others.sort(key=lambda item: item[0], reverse=True)
    keys.extend((kind, key) for _, kind, key in others)
    total = sum(page.answer[1] for page in pages) + (0 if listed is None else listed.answer.total)
    if question.min_score is not None and question.min_score > 0:
        return SearchOutcome(scored=total), False
    keys = keys[:read]
    found = await read_whole(
        partial(ask, connection),
        UserReads(scope, question.moment),
        keys,
        hides_forgotten=question.hides_forgotten,
    )
    unscored = dict.fromkeys(question.ranking.weights, 0.0)
    items = [item for kind, key in keys if (item := found.item(kind, key)) is not None]
    hits = [Hit(item, 0.0, unscored=unscored) for item in items]
    return SearchOutcome(hits, (), total), total > read


async def _memories(
    connection: Connection, scope: Scope, question: Question, opener: Opener | None, read: int
) -> Statement[MemoryPage]:
    filters, moment = question.filters, question.moment
    if opener is not None:
        filters = await for_a_list(scope, filters, moment, opener, lambda s: ask(connection, s))
    order: dict[str, Any] = {"order_by": "usefulness", "after": None, "limit": read}
    if moment is not None:
        return past.page(scope, moment, filters, **order)
    return memories.page(scope, filters, **order)
