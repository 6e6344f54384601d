"""Something of every kind about a few matters, put straight into the tables, with vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hitherto_shared.embeddings.offline import OfflineEmbedder
from hitherto_shared.embeddings.protocol import Vector
from tests.integration.retrieval.seed import Fact, remember
from tests.integration.retrieval.seed_passages import (
    Outline,
    Paper,
    Turn,
    converse,
    hand_over,
    sum_up,
)
from tests.scripted_model import text_vector

NOW = datetime.now(UTC)
OFFLINE = (OfflineEmbedder().name, OfflineEmbedder().dimensions)
SCRIPTED = ("text-embedding-3-small", 64)
"""The model that `model_settings` of the fixtures configures."""

_HEARD = ("user", "assistant")


async def offline_vectors(*texts: str) -> dict[str, Vector]:
    """The offline embedder's vectors by text."""
    return dict(zip(texts, (await OfflineEmbedder().embed(texts)).vectors, strict=True))


def scripted_vector(text: str) -> Vector:
    """What the scripted model answers."""
    return text_vector(text, SCRIPTED[1])


def ago(days: float) -> datetime:
    """A moment so many days before the test run."""
    return NOW - timedelta(days=days)


async def fill(
    conninfo: str,
    user: str,
    *,
    memories: Sequence[Fact] = (),
    conversations: dict[str, list[Turn]] | None = None,
    summaries: Sequence[Outline] = (),
    documents: Sequence[Paper] = (),
    scripted: bool = False,
) -> list[str]:
    """Store everything of one new user with vectors; the ids of the memories.

    Args:
        conninfo: The administrator's way into the database.
        user: Whose it is.
        memories: Facts.
        conversations: Turns by conversation.
        summaries: Of these or other conversations.
        documents: Each with one vector for each chunk.
        scripted: Whether the vectors are those of the scripted model instead of the offline one.
    """
    said = conversations or {}
    texts = [
        *(fact.content for fact in memories),
        *(turn.content for turns in said.values() for turn in turns),
        *(outline.summary for outline in summaries),
        *(chunk for paper in documents for chunk in paper.chunks),
    ]
    of = (
        {text: scripted_vector(text) for text in texts}
        if scripted
        else await offline_vectors(*texts)
    )
    model = SCRIPTED if scripted else OFFLINE
    ids = await remember(
        conninfo, user, [replace(fact, vector=of[fact.content]) for fact in memories], model=model
    )
    if said:
        await converse(
            conninfo,
            user,
            {
                name: [
                    replace(turn, vector=of[turn.content] if turn.role in _HEARD else None)
                    for turn in turns
                ]
                for name, turns in said.items()
            },
            model=model,
        )
    if summaries:
        outlines = [replace(outline, vector=of[outline.summary]) for outline in summaries]
        await sum_up(conninfo, user, outlines, model=model)
    if documents:
        papers = [
            replace(paper, vectors=[of[chunk] for chunk in paper.chunks]) for paper in documents
        ]
        await hand_over(conninfo, user, papers, model=model)
    return [str(memory_id) for memory_id in ids]
