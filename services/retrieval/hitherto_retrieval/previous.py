"""What the last answer in a conversation was based on, for the question that follows it (F4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from hitherto_retrieval.opening import Opener
from hitherto_retrieval.search.question import Hit
from hitherto_retrieval.search.reads import UserReads
from hitherto_retrieval.search.whole_results import read_whole
from hitherto_retrieval.storage import previous_items
from hitherto_retrieval.storage.previous_items import LastAnswer, PreviousItem
from hitherto_retrieval.storage.statement import ask
from hitherto_shared.database.pool import Connection
from hitherto_shared.encryption.rows import MESSAGE
from hitherto_shared.models import Scope


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
) -> list[Hit]:
    """The items behind ids, in their present form, in the order in which they were named.

    The score of each is the relevance that was stored with it. Ids that the user does not have, or
    no longer has, are left out, and so are messages whose memory is quarantined or forgotten. An id
    that was named twice appears once.
    """
    if not named:
        return []
    known = previous_items.known(scope, conversation_id, [name for name, _ in named])
    await ask(connection, known)
    meant = known.answer
    reads = UserReads(scope)
    found = await read_whole(
        partial(ask, connection), reads, list(meant.values()), hides_forgotten=True
    )
    hits: dict[PreviousItem, Hit] = {}
    for name, relevance in named:
        place = meant.get(name)
        hit = None if place is None else found.hit(*place, relevance)
        if place is not None and hit is not None:
            hits.setdefault(place, hit)
    return list(hits.values())
