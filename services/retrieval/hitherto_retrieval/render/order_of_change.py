"""Orders answers by what changed: where the older of two stands, the newer stands before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime
from uuid import UUID

from hitherto_retrieval.pairs import newer_first, newer_of
from hitherto_retrieval.render.context import RelevantItem
from hitherto_retrieval.repetition import Source, is_said, words_of
from hitherto_shared.models import Memory
from hitherto_shared.text.terms import content_terms
from hitherto_shared.text.word_forms import forms


def in_order_of_change(
    worths: Sequence[tuple[float, RelevantItem]], least: float, terms: Mapping[str, float]
) -> Sequence[tuple[float, RelevantItem]]:
    """Those worth at least `least`, what is newer first: where the older stands, it stands before.

    Whatever it is worth, a memory that may replace one of them is among them, and so is a goal
    that is pursued much like one that was reached. `terms` are the question's words.
    """
    memories = [item.memory for _, item in worths if item.memory is not None]
    newer = newer_of(memories) | _pursued(memories, terms)
    if not newer:
        return _newest_message_first([each for each in worths if each[0] >= least])
    enough = {
        item.memory.memory_id
        for worth, item in worths
        if item.memory is not None and worth >= least
    }
    also = {each for older in newer.keys() & enough for each in newer[older]}
    found = [
        (worth, item)
        for worth, item in worths
        if worth >= least or (item.memory is not None and item.memory.memory_id in also)
    ]
    found = newer_first(
        found, newer, lambda each: each[1].memory.memory_id if each[1].memory else None
    )
    return _newest_message_first(found)


def _pursued(memories: Sequence[Memory], terms: Mapping[str, float]) -> dict[UUID, list[UUID]]:
    """For each goal that was reached, those pursued that have most of its words.

    They have the question's words that it has: "learn to sail" answers no question about Spanish.
    """
    goals = [each for each in memories if each.type == "goal" and each.status == "active"]
    found: dict[UUID, list[UUID]] = {}
    for reached in memories:
        if not goals or reached.status != "achieved":
            continue
        words, asked = words_of(reached.content), _asked(reached, terms)
        for each in goals:
            if asked and asked <= _asked(each, terms) and is_said(words, words_of(each.content)):
                found.setdefault(reached.memory_id, []).append(each.memory_id)
    return found


def _asked(memory: Memory, terms: Mapping[str, float]) -> Set[str]:
    """The question's words that a memory has."""
    return terms.keys() & {forms(term)[0] for term in content_terms(memory.content)}


def _newest_message_first(
    found: list[tuple[float, RelevantItem]],
) -> Sequence[tuple[float, RelevantItem]]:
    """The messages that a changed memory came from change places, so that the newest is first.

    What precedes everything keeps its place.
    """
    if not any(item.memory is not None and changed_by(item.memory) for _, item in found):
        return found
    places = {
        source: place
        for place, (_, item) in enumerate(found)
        if item.memory is None and item.at is not None and not item.first
        for source in item.sources
    }
    for _, item in found:
        if item.memory is None or not changed_by(item.memory):
            continue
        taken = sorted({places[source] for source in item.sources if source in places})
        said = sorted((found[place] for place in taken), key=_time, reverse=True)
        for place, each in zip(taken, said, strict=True):
            found[place] = each
            places |= dict.fromkeys(each[1].sources, place)
    return found


def telling(memory: Memory, sources: Sequence[Source]) -> Sequence[Source]:
    """The messages that may say what a memory says now: if it was changed, those that did so."""
    return changed_by(memory) or sources


def changed_by(memory: Memory) -> Sequence[Source]:
    """The messages that changed the words of a memory; each was quoted."""
    if memory.worded_in == 1:
        return ()
    return [(of.conversation_id, of.message_id) for of, _ in memory.evidence]


def is_plain(memory: Memory) -> bool:
    """Whether the line of a memory says no more than its words and since when they hold."""
    return memory.valid_to is None and memory.expires_at is None and memory.origin == "user"


def told_anew(items: Sequence[RelevantItem]) -> Mapping[Source, str]:
    """By message what its memory says now, if a later message gave that other words.

    A message precedes the change if it is as old as the memory, or older than the message that last
    changed it and of another conversation: one of the same may have changed it too without being
    quoted. Words that were said again since the change are as new as that. What a memory says in a
    note of its own is no note of its messages.
    """
    memories = [item for item in items if item.memory is not None and changed_by(item.memory)]
    if not memories:
        return {}
    said = said_at(items)
    newest = {s: item.at for item in items if item.memory is None and item.at for s in item.sources}
    found: dict[Source, str] = {}
    for item in memories:
        memory = item.memory
        if memory is None or not is_plain(memory) or memory.doubt or memory.status != "active":
            continue
        changed = [source for source in changed_by(memory) if source in said]
        last = max(changed, key=said.__getitem__, default=None)
        for source in said.keys() & item.sources:
            precedes = said[source] <= memory.valid_from
            if last is not None and source in changed:
                precedes = newest[source] < said[last]
            elif last is not None:
                precedes |= source[0] != last[0]
                precedes &= newest[source] < said[last] or said[source] == said[last]
            if precedes:
                found.setdefault(source, memory.content)
    return found


def said_at(items: Iterable[RelevantItem]) -> Mapping[Source, datetime]:
    """When the messages among items were said."""
    return {
        source: at
        for item in items
        if item.memory is None and item.at is not None
        for source, at in (*((source, item.at) for source in item.sources), *item.again)
    }


def _time(each: tuple[float, RelevantItem]) -> float:
    return time_of(each[1])


def time_of(item: RelevantItem) -> float:
    """When something was said, or since when it holds; what precedes everything is the earliest."""
    if item.first:
        return float("-inf")
    at = item.at if item.memory is None else item.memory.valid_from
    return at.timestamp() if at is not None else 0.0
