"""A user's memories of a moment, by every way there is to read them; days of a story."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hitherto_retrieval.storage import filtered_candidates, past
from hitherto_retrieval.storage.filtered_candidates import PastCandidate
from hitherto_retrieval.storage.filters import Filters
from hitherto_retrieval.storage.item_query import ItemQuery
from hitherto_retrieval.storage.moment import Moment
from hitherto_shared.database.pool import Database
from hitherto_shared.models import Memory
from hitherto_shared.text.bm25 import NO_SCORES
from tests.integration.retrieval.questions import ANA, answer

MODEL = ("test-model", 64)
NOW = datetime.now(UTC)
START = NOW - timedelta(days=1000)


def day(number: float) -> datetime:
    """A day of the story; it began a thousand days ago."""
    return START + timedelta(days=number)


async def listed(
    reader: Database, moment: Moment, filters: Filters | None = None, **order: Any
) -> list[Memory]:
    """All memories of a moment, by way of pages of two."""
    found: list[UUID] = []
    after: tuple[str, str] | None = None
    while True:
        page = await answer(
            reader,
            past.page(
                ANA,
                moment,
                filters or Filters(),
                order_by=order.get("order_by", "created_at"),
                after=after,
                limit=2,
            ),
        )
        found += page.ids
        if page.following is None:
            break
        # The past does not change: what follows is told by a key and an id.
        key, last = page.following[:2]
        after = key, last
    assert page.total == len(found) or not found
    assert len(set(found)) == len(found)
    whole = await answer(reader, past.whole(ANA, moment, found))
    assert [memory.memory_id for memory in whole] == found
    return whole


async def said(reader: Database, moment: Moment, filters: Filters | None = None) -> list[str]:
    """What the memories of a moment say, in alphabetical order; a search sees the same ones."""
    found = await listed(reader, moment, filters)
    candidates = await searched(reader, moment, filters=filters)
    assert {c.candidate.key for c in candidates} == {memory.memory_id for memory in found}
    return sorted(memory.content for memory in found)


async def searched(
    reader: Database, moment: Moment, *, filters: Filters | None = None, **sought: Any
) -> list[PastCandidate]:
    """What the legs of a search bring in at a moment."""
    wanted: dict[str, Any] = {"vector": None, "bm25": NO_SCORES, "wanted": 200, **sought}
    looked_for = ItemQuery(ANA, model=MODEL[0], **wanted)
    return await answer(
        reader, filtered_candidates.find_at(looked_for, moment, filters or Filters())
    )
