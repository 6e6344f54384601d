"""Reading from another time, for the end-to-end tests."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from hitherto.v1 import memory_pb2
from hitherto.v1 import retrieval_service_pb2 as pb
from tests.e2e.conftest import Services
from tests.e2e.learning import rows


def now_of(conninfo: str) -> datetime:
    """The database's clock: what is written from here on is learnt later."""
    ((moment,),) = rows(conninfo, "SELECT clock_timestamp()")
    assert isinstance(moment, datetime)
    return moment


def stamp(moment: datetime | Timestamp | None) -> Timestamp | None:
    """A moment as requests hold it."""
    if moment is None or isinstance(moment, Timestamp):
        return moment
    found = Timestamp()
    found.FromDatetime(moment)
    return found


async def at(
    services: Services,
    query: str = "Ana",
    *,
    as_of: datetime | Timestamp | None = None,
    known_at: datetime | Timestamp | None = None,
) -> list[memory_pb2.Memory]:
    """The memories of a moment, in alphabetical order.

    Lists, searches with and without a question, and contexts tell the same ones the same way.
    """
    moment: dict[str, Any] = {"user_id": "ana", "as_of": stamp(as_of), "known_at": stamp(known_at)}
    listed = await services.retrieval.ListMemories(pb.ListMemoriesRequest(**moment, page_size=1000))
    assert listed.total_size == len(listed.memories)
    searched = await services.retrieval.SearchMemories(
        pb.SearchMemoriesRequest(**moment, query=query, limit=200, min_relevance=0)
    )
    unasked = await services.retrieval.SearchMemories(pb.SearchMemoriesRequest(**moment, limit=200))
    context = await services.retrieval.GetContext(
        pb.GetContextRequest(
            **moment, query=query, max_memories=200, max_relevant=200, min_relevance=0
        )
    )
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
