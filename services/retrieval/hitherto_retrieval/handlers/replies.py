"""Writes the replies of searches and contexts, as they are sent.

Items are written to bytes, which are kept with items that outlive the call. A reply is its other
fields followed by these: fields may come in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache, lru_cache
from struct import Struct
from typing import TypeVar

from google.protobuf.message import Message as Wire
from prometheus_client import Counter

from hitherto.v1 import document_pb2, memory_pb2, search_pb2
from hitherto.v1 import retrieval_service_pb2 as pb
from hitherto_retrieval.search.corpora.corpus import Item
from hitherto_retrieval.search.legs import Legs
from hitherto_retrieval.search.question import Hit, SearchOutcome
from hitherto_retrieval.search.reporting import legs_of
from hitherto_retrieval.storage.chunks import Chunk
from hitherto_retrieval.user_context import UserContext
from hitherto_shared import metrics, tracing
from hitherto_shared.convert import (
    Fields,
    duration_fields,
    entity_message,
    memory_message,
    message_fields,
    message_message,
    preference_message,
    profile_message,
    struct,
    summary_message,
    timestamp,
)
from hitherto_shared.models import (
    Entity,
    Memory,
    Message,
    Preference,
    Profile,
    Summary,
)
from hitherto_shared.work_record import current_record

_LEG_STATES = {
    "ran": search_pb2.LEG_STATE_RAN,
    "skipped": search_pb2.LEG_STATE_SKIPPED,
    "timed_out": search_pb2.LEG_STATE_TIMED_OUT,
    "failed": search_pb2.LEG_STATE_FAILED,
}
_WIRE = "wire"

Written = TypeVar("Written", Memory, Message, Summary, Entity, Profile, Preference)


def _tags(message: type[Wire]) -> dict[str, bytes]:
    """What precedes each field of a message, if it is a message or a string itself."""
    return {each.name: _varint(each.number << 3 | 2) for each in message.DESCRIPTOR.fields}


@lru_cache(maxsize=4_096)
def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_CONTEXT, _SEARCH = _tags(pb.GetContextResponse), _tags(pb.SearchMemoriesResponse)
_RESULT = _tags(search_pb2.SearchResult)
_DOUBLE = Struct("<d")


def context_reply(found: UserContext, legs: Legs) -> bytes:
    """The `GetContextResponse`."""
    reply: Fields = {
        "prompt_block": found.block.text,
        "prompt_tokens": found.block.tokens,
        "legs": _legs(legs),
        "degraded": legs.degraded,
        "nothing_relevant": found.nothing_relevant,
    }
    return b"".join(
        [
            pb.GetContextResponse(**reply).SerializeToString(),
            *[_memory(_CONTEXT["memories"], each) for each in found.memories],
            _written(_CONTEXT["profile"], found.profile, profile_message),
            *_fields(_CONTEXT["relevant"], map(_result, found.found.hits)),
            *_fields(_CONTEXT["previous_items"], map(_result, found.previous)),
            *_all_written(_CONTEXT["conversations"], found.conversations, summary_message),
            *_all_written(_CONTEXT["entities"], found.entities, entity_message),
            *_all_written(_CONTEXT["preferences"], found.preferences, preference_message),
        ]
    )


def search_reply(found: SearchOutcome, legs: Legs, *, explain: bool) -> bytes:
    """The `SearchMemoriesResponse`; `explain` adds the components of scores."""
    reply: Fields = {
        "candidates_total": found.scored,
        "legs": _legs(legs),
        "degraded": legs.degraded,
    }
    results = (_result(hit, explain=explain) for hit in found.hits)
    return b"".join(
        [
            pb.SearchMemoriesResponse(**reply).SerializeToString(),
            *_fields(_SEARCH["results"], results),
            *_all_written(_SEARCH["entities"], found.entities, entity_message),
        ]
    )


def written(item: Item) -> bool:
    """Whether the bytes of a memory are kept, so that they need not be written again."""
    return isinstance(item, Memory) and item.kept is not None and _WIRE in item.kept


def _field(tag: bytes, content: bytes) -> bytes:
    return b"%b%b%b" % (tag, _varint(len(content)), content)


def _fields(tag: bytes, contents: Iterable[bytes]) -> list[bytes]:
    return [_field(tag, content) for content in contents]


def _written(tag: bytes, item: Written, message: Callable[[Written], Wire]) -> bytes:
    """The field of an item, kept with it if it outlives the call."""
    kept = item.kept
    if kept is None:
        return _field(tag, message(item).SerializeToString())
    found: bytes | None = kept.get(tag)
    if found is None:
        found = kept[tag] = _field(tag, message(item).SerializeToString())
    return found


def _all_written(
    tag: bytes, items: Iterable[Written], message: Callable[[Written], Wire]
) -> list[bytes]:
    return [_written(tag, each, message) for each in items]


def _memory(tag: bytes, memory: Memory) -> bytes:
    """The field of a memory, of which all but the usage is kept as of other items."""
    kept = memory.kept
    found: bytes | None = None if kept is None else kept.get(_WIRE)
    if found is None:
        found = _unused(memory).SerializeToString()
        if kept is not None:
            kept[_WIRE] = found
    # How it was used changes with every reply; fields may come in any order.
    usage = _usage(memory.access_count, memory.last_accessed_at)
    return b"%b%b%b%b" % (tag, _varint(len(found) + len(usage)), found, usage)


# What is returned together was often used together.
@lru_cache(maxsize=4_096)
def _usage(count: int, last: datetime | None) -> bytes:
    """How a memory was used, which is all of it that changes without a write."""
    return memory_pb2.Memory(
        access_count=count, last_accessed_at=timestamp(last)
    ).SerializeToString()


def _unused(memory: Memory) -> memory_pb2.Memory:
    message = memory_message(memory)
    for name in ("access_count", "last_accessed_at"):
        message.ClearField(name)
    return message


def _result(hit: Hit, *, explain: bool = True) -> bytes:
    found: Fields = {"score": hit.score}
    if hit.ranked is not None:
        found["matched_legs"] = legs_of(hit.ranked)
    if hit.excerpt:
        found["excerpt"] = [message_fields(message) for message in hit.excerpt]
    parts = [_item(hit.item), search_pb2.SearchResult(**found).SerializeToString()]
    if explain:
        parts += [_component(name) + _DOUBLE.pack(part) for name, part in hit.breakdown.items()]
    return b"".join(parts)


@cache
def _component(name: str) -> bytes:
    """What precedes the value of a component in a breakdown: a map is a list of keys and values."""
    entry = _field(b"\x0a", name.encode()) + b"\x11"
    return b"%b%b%b" % (_RESULT["breakdown"], _varint(len(entry) + _DOUBLE.size), entry)


def _item(item: Item) -> bytes:
    """The field of a result that holds the item."""
    if isinstance(item, Memory):
        return _memory(_RESULT["memory"], item)
    if isinstance(item, Message):
        return _written(_RESULT["message"], item, message_message)
    if isinstance(item, Summary):
        return _written(_RESULT["summary"], item, summary_message)
    return _field(_RESULT["document_chunk"], _chunk_message(item).SerializeToString())


def _chunk_message(chunk: Chunk) -> document_pb2.DocumentChunk:
    return document_pb2.DocumentChunk(
        id=str(chunk.chunk_id),
        document_id=str(chunk.document_id),
        source_type=chunk.source_type,
        source_id=chunk.source_id,
        content_type=chunk.content_type,
        title=chunk.title,
        summary=chunk.summary,
        content=chunk.content,
        position=chunk.position,
        created_at=timestamp(chunk.created_at),
        metadata=struct(chunk.metadata),
    )


@cache
def _counter_of(name: str, state: str) -> Counter:
    """The metric of legs of this name that ended in this state."""
    return metrics.SEARCH_LEGS.labels(name, state)


def _legs(legs: Legs) -> list[Fields]:
    record = current_record()
    for leg in legs.reports:
        _counter_of(leg.name, leg.state).inc()
        if record is not None:
            record.add("leg", leg.name, leg.seconds)
        tracing.event(
            f"leg {leg.name}",
            {"state": leg.state, "seconds": leg.seconds, "candidates": leg.candidates},
        )
    if legs.degraded:
        metrics.DEGRADED_REPLIES.inc()
    return [
        {
            "name": leg.name,
            "state": _LEG_STATES[leg.state],
            "duration": duration_fields(leg.seconds),
            "candidates": leg.candidates,
            "reason": leg.reason,
        }
        for leg in legs.reports
    ]
