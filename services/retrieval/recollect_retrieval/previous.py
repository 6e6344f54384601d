"""What the last answer in a conversation was based on, for the question that follows it (F4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recollect_retrieval.search.corpora.looking import Item
from recollect_retrieval.search.telling import read_whole
from recollect_retrieval.storage import previous_items
from recollect_retrieval.storage.statement import ask
from recollect_shared.database.pool import Connection
from recollect_shared.models import Scope


@dataclass(frozen=True, slots=True)
class Previous:
    """One item with the relevance that was stored with it."""

    item: Item
    relevance: float


async def read_previous(
    connection: Connection,
    scope: Scope,
    conversation_id: str,
    named: Sequence[tuple[str, float]],
) -> list[Previous]:
    """The items behind ids, as they are now, in the order in which they were named.

    Ids that mean nothing of this user, or nothing any more, are left out; what was named twice
    comes once.

    Args:
        connection: Where to read.
        scope: Whose.
        conversation_id: Where they were named.
        named: `previous_items.context_items_of_last_answer`.
    """
    if not named:
        return []
    known = previous_items.known(scope, conversation_id, [name for name, _ in named])
    await ask(connection, known)
    meant = known.answer
    found = await read_whole(connection, scope, [(item.kind, item.key) for item in meant.values()])
    told: dict[tuple[object, object], Previous] = {}
    for name, relevance in named:
        item = meant.get(name)
        if item is not None and (item.kind, item.key) in found:
            told.setdefault((item.kind, item.key), Previous(found[item.kind, item.key], relevance))
    return list(told.values())
