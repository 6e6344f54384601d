"""Reading from another time, for the end-to-end tests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hitherto.v1 import memory_pb2
from tests.e2e.conftest import Services
from tests.e2e.learning import rows
from tests.e2e.methods import ask


def now_of(conninfo: str) -> datetime:
    """The database's clock: what is written from here on is learnt later."""
    ((moment,),) = rows(conninfo, "SELECT clock_timestamp()")
    assert isinstance(moment, datetime)
    return moment


async def at(
    services: Services,
    query: str = "Ana",
    *,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
) -> list[memory_pb2.Memory]:
    """The memories of a moment, in alphabetical order.

    Lists, searches with and without a question, and contexts tell the same ones the same way.
    """
    moment: dict[str, Any] = {"as_of": as_of, "known_at": known_at}
    listed = await ask(services, "ListMemories", **moment, page_size=1000)
    assert listed.total_size == len(listed.memories)
    asked = {**moment, "query": query, "min_relevance": 0}
    searched = await ask(services, "SearchMemories", **asked, limit=200)
    unasked = await ask(services, "SearchMemories", **moment, limit=200)
    context = await ask(services, "GetContext", **asked, max_memories=200, max_relevant=200)
    everywhere = [
        listed.memories,
        [result.memory for result in searched.results],
        [result.memory for result in unasked.results],
        context.memories,
        [result.memory for result in context.relevant if result.HasField("memory")],
    ]
    first, *others = [_plain(memories) for memories in everywhere]
    for other in others:
        assert other == first
    for memory in listed.memories:
        assert memory.content in context.prompt_block
    return sorted(listed.memories, key=lambda memory: memory.content)


async def contents_at(services: Services, query: str = "Ana", **moment: Any) -> list[str]:
    """What the memories of a moment say."""
    return [memory.content for memory in await at(services, query, **moment)]


def _plain(memories: Any) -> dict[str, tuple[Any, ...]]:
    """Memories by their ids, without what reading them changes."""
    return {
        memory.id: (
            memory.content,
            memory.version,
            memory.status,
            memory.importance,
            memory.superseded_by,
            memory.valid_from.ToNanoseconds(),
            memory.valid_to.ToNanoseconds(),
        )
        for memory in memories
    }
