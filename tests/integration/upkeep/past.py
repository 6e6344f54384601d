"""Rows of the past for tests of retention, and where their words stand."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from hitherto_extraction.storage import keyword_index
from hitherto_shared.models import Scope
from hitherto_shared.text.terms import count_terms
from tests.integration.upkeep.stage import TENANT, Stage

ANA = Scope(TENANT, "ana")
CANARY = "zyxwvcanarx"
"""A word that stemming leaves as it is, so that the keyword index holds it too."""
NOTHING = {"memories": 0, "versions": 0, "vectors": 0, "messages": 0, "memories_reindexed": 0}


async def index(stage: Stage, **texts: int) -> None:
    """Put texts into ana's keyword index under these numbers."""
    async with stage.write.connection() as connection:
        for text, number in texts.items():
            await keyword_index.append(connection.of(ANA), {number: count_terms(text)})


async def conversation(
    stage: Stage, name: str = "c1", *, silent: str = "99 days", watermark: int = 9
) -> None:
    """A conversation in which nothing was said for so long."""
    await stage.user()
    told = {"conversation_id": name, "last_message_no": 9, "watermark": watermark}
    await stage.put("conversations", updated_at=silent, **told)


async def message(
    stage: Stage,
    number: int,
    content: str = "Hello.",
    *,
    said: str = "99 days",
    accepted: str | None = None,
    name: str = "c1",
) -> None:
    place = {"conversation_id": name, "message_no": number, "message_id": f"m{number}"}
    when = {"said_at": said, "accepted_at": accepted or said}
    await stage.put("messages", role="user", content=content, **place, **when)


async def source(stage: Stage, memory_id: Any, number: int, name: str = "c1") -> None:
    """A memory was learnt from a message."""
    told = {"conversation_id": name, "message_id": f"m{number}"}
    await stage.put("memory_sources", memory_id=memory_id, **told)


async def tables_with_the_canary(stage: Stage) -> set[str]:
    """In which tables it stands."""
    return set(re.findall(f"^(\\w+): .*{CANARY}", await stage.dump(), re.MULTILINE))


async def held_messages(stage: Stage) -> list[int]:
    return [row[0] for row in await stage.rows("SELECT message_no FROM messages ORDER BY 1")]


async def postings_of(stage: Stage, number: int) -> Counter[str]:
    """What the index holds under a number."""
    return Counter(
        dict(
            await stage.rows(
                "SELECT term, frequency::int FROM postings, unnest(lexical_nos, frequencies)"
                " AS n (no, frequency) WHERE no = %s",
                number,
            )
        )
    )
