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
    await stage.rows(
        "INSERT INTO conversations (tenant_id, user_id, conversation_id, updated_at,"
        " last_message_no, watermark) VALUES (%s, 'ana', %s, now() - %s::interval, 9, %s)",
        TENANT,
        name,
        silent,
        watermark,
    )


async def message(
    stage: Stage,
    number: int,
    content: str = "Hello.",
    *,
    said: str = "99 days",
    accepted: str | None = None,
    name: str = "c1",
) -> None:
    await stage.rows(
        "INSERT INTO messages (tenant_id, user_id, conversation_id, message_no, message_id, role,"
        " content, said_at, accepted_at) VALUES (%s, 'ana', %s, %s, %s, 'user', %s,"
        " now() - %s::interval, now() - %s::interval)",
        TENANT,
        name,
        number,
        f"m{number}",
        content,
        said,
        accepted or said,
    )


async def source(stage: Stage, memory_id: Any, number: int, name: str = "c1") -> None:
    """A memory was learnt from a message."""
    await stage.rows(
        "INSERT INTO memory_sources (tenant_id, user_id, memory_id, conversation_id, message_id)"
        " VALUES (%s, 'ana', %s, %s, %s)",
        TENANT,
        memory_id,
        name,
        f"m{number}",
    )


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
