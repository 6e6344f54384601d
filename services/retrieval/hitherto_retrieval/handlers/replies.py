"""Writes the replies of searches and contexts, as they are sent.

Items that outlive the call keep their serialised form, from which protobuf fills the next reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message as Wire

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
    made,
    memory_message,
    message_message,
    preference_message,
    profile_message,
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


def context_reply(found: UserContext, legs: Legs) -> bytes:
    """The `GetContextResponse`."""
    reply: Fields = {
        "prompt_block": found.block.text,
        "prompt_tokens": found.block.tokens,
        "legs": _legs(legs),
        "degraded": legs.degraded,
        "nothing_relevant": found.nothing_relevant,
    }
    sent = pb.GetContextResponse(**reply)
    for memory in found.memories:
        _fill_memory(sent.memories.add(), memory)
    sent.profile.SetInParent()
    _fill(sent.profile, found.profile, profile_message)
    for hit in found.found.hits:
        _fill_result(sent.relevant.add(), hit)
    for hit in found.previous:
        _fill_result(sent.previous_items.add(), hit)
    for summary in found.conversations:
        _fill(sent.conversations.add(), summary, summary_message)
    for entity in found.entities:
        _fill(sent.entities.add(), entity, entity_message)
    for preference in found.preferences:
        _fill(sent.preferences.add(), preference, preference_message)
    return sent.SerializeToString()


def search_reply(found: SearchOutcome, legs: Legs, *, explain: bool) -> bytes:
    """The `SearchMemoriesResponse`; `explain` adds the components of scores."""
    reply: Fields = {
        "candidates_total": found.scored,
        "legs": _legs(legs),
        "degraded": legs.degraded,
    }
    sent = pb.SearchMemoriesResponse(**reply)
    for hit in found.hits:
        _fill_result(sent.results.add(), hit, explain=explain)
    for entity in found.entities:
        _fill(sent.entities.add(), entity, entity_message)
    return sent.SerializeToString()


def written(item: Item) -> bool:
    """Whether the bytes of a memory are kept, so that they need not be written again."""
    return isinstance(item, Memory) and item.memo is not None and _WIRE in item.memo


def _fill(sent: Wire, item: Written, message: Callable[[Written], Wire]) -> None:
    """Fill a message of a reply with an item."""
    memo = item.memo
    if memo is None:
        sent.MergeFrom(message(item))
        return
    found: bytes | None = memo.get(_WIRE)
    if found is None:
        found = memo[_WIRE] = message(item).SerializeToString()
    sent.MergeFromString(found)


def _fill_memory(sent: memory_pb2.Memory, memory: Memory) -> None:
    """As `_fill`; how a memory was used is all of it that changes without a write."""
    _fill(sent, memory, memory_message)
    sent.access_count = memory.access_count
    if (used := timestamp(memory.last_accessed_at)) is not None:
        sent.last_accessed_at.CopyFrom(used)


def _fill_result(sent: search_pb2.SearchResult, hit: Hit, *, explain: bool = True) -> None:
    item = hit.item
    if isinstance(item, Memory):
        _fill_memory(sent.memory, item)
    elif isinstance(item, Message):
        _fill(sent.message, item, message_message)
    elif isinstance(item, Summary):
        _fill(sent.summary, item, summary_message)
    else:
        sent.document_chunk.MergeFrom(_chunk_message(item))
    sent.score = hit.score
    if hit.ranked is not None:
        sent.matched_legs.extend(legs_of(hit.ranked))
    sent.excerpt.extend(map(message_message, hit.excerpt))
    if explain:
        sent.breakdown.update(hit.breakdown)


def _chunk_message(chunk: Chunk) -> document_pb2.DocumentChunk:
    return made(
        document_pb2.DocumentChunk,
        chunk,
        id=str(chunk.chunk_id),
        document_id=str(chunk.document_id),
    )


def _legs(legs: Legs) -> list[Fields]:
    record, traced = current_record(), tracing.tracer() is not None
    for leg in legs.reports:
        metrics.labelled(metrics.SEARCH_LEGS, leg.name, leg.state).inc()
        if record is not None:
            record.add("leg", leg.name, leg.seconds)
        if traced:
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
