"""What the last answer in a conversation was based on, for the question that follows it (F4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hitherto_retrieval.opening import Opener
from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.search.whole_results import read_whole
from hitherto_retrieval.storage import previous_items
from hitherto_retrieval.storage.previous_items import LastAnswer
from hitherto_retrieval.storage.statement import ask
from hitherto_shared.database.pool import Connection
from hitherto_shared.encryption.rows import MESSAGE
from hitherto_shared.models import Scope


@dataclass(frozen=True, slots=True)
class PreviousAnswerItem:
    """One item with the relevance that was stored with it."""

    item: Item
    relevance: float


async def named_by(
    answer: LastAnswer, conversation_id: str, opener: Opener
) -> Sequence[tuple[str, float]]:
    """Ids and relevance of the items an answer was based on; empty if they do not open."""
    if answer.sealed is None:
        return answer.named
    await opener.fetch()
    values = opener.values(answer.sealed, MESSAGE.place(conversation_id, answer.message_id))
    items = values.get("context_items", ()) if values is not None else ()
    return [(item["id"], float(item.get("relevance", 0.0))) for item in items]


async def read_previous(
    connection: Connection,
    scope: Scope,
    conversation_id: str,
    named: Sequence[tuple[str, float]],
) -> list[PreviousAnswerItem]:
    """The items behind ids, in their present form, in the order in which they were named.

    Ids that the user does not have, or no longer has, are left out; an id that was named twice
    appears once.

    Args:
        connection: Connection to read from.
        scope: The user.
        conversation_id: The conversation of the answer.
        named: The result of `named_by` for that answer.
    """
    if not named:
        return []
    known = previous_items.known(scope, conversation_id, [name for name, _ in named])
    await ask(connection, known)
    meant = known.answer
    found = await read_whole(
        partial(ask, connection), scope, [(item.kind, item.key) for item in meant.values()]
    )
    items: dict[tuple[object, object], PreviousAnswerItem] = {}
    for name, relevance in named:
        item = meant.get(name)
        whole = None if item is None else found[item.kind].get(item.key)
        if item is not None and whole is not None:
            items.setdefault((item.kind, item.key), PreviousAnswerItem(whole, relevance))
    return list(items.values())
