"""A context prepared for printing: what its sections hold, with and without a question."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from hitherto_retrieval.render.budget import ESSENTIAL_RANK
from hitherto_retrieval.render.context import PromptContext, RelevantItem
from hitherto_retrieval.render.lines import Lines
from hitherto_retrieval.render.profile_lines import ESSENTIAL, ProfileLine, profile_lines
from hitherto_retrieval.repetition import adds_nothing, words_of
from hitherto_shared.models import HIDDEN_STATUSES, NEUTRAL_TITLE, Entity, Memory, Summary

_TRUSTED = frozenset({"user", "operator"})


@dataclass(frozen=True, slots=True)
class Material:
    """A context prepared for printing: each item once, without items that must not be shown."""

    lines: Sequence[ProfileLine]
    memories: Sequence[Memory]
    items: Sequence[RelevantItem]
    conversations: Sequence[Summary]
    entities: Sequence[Entity]
    # With a question: lines of the profile that were inferred, and that it does not name.
    inferred: Sequence[ProfileLine] = ()


def material(context: PromptContext, lines: Lines, *, memory_items: int = 0) -> Material:
    """Prepare `context`.

    A conversation that only its first words tell of is left out if a message says them.
    Quarantined and forgotten memories are left out whatever the caller passed. Relevant memories go
    to the front of the memories; other relevant items stay items. `memory_items` is how many
    relevant items, from the front, stay items even if they are memories.
    """
    opened = lines.opened
    conversations = {
        one.conversation_id: one for one in context.conversations if _tells(one, opened)
    }
    memories: dict[UUID, Memory] = {}
    shown: set[UUID] = set()
    items: list[RelevantItem] = []
    for item in context.relevant:
        if item.memory is None:
            if item.summary_of is not None and not _tells(item.summary_of, opened):
                continue
            if item.conversation_id is None or item.conversation_id not in conversations:
                items.append(item)
        elif item.memory.status in HIDDEN_STATUSES or (shown and item.memory.memory_id in shown):
            continue
        elif len(items) < memory_items:
            items.append(item)
            shown.add(item.memory.memory_id)
        else:
            memories.setdefault(item.memory.memory_id, item.memory)
    # A less trusted origin never ranks above the user's own statements, whatever importance it
    # claims.
    for memory in sorted(context.memories, key=lambda each: each.origin not in _TRUSTED):
        if memory.status not in HIDDEN_STATUSES and not (shown and memory.memory_id in shown):
            memories.setdefault(memory.memory_id, memory)
    return Material(
        lines=profile_lines(context.profile, context.preferences),
        memories=list(memories.values()),
        items=items,
        conversations=list(conversations.values()),
        entities=list({one.entity_id: one for one in context.entities}.values()),
    )


def asked_material(context: PromptContext, lines: Lines) -> Material:
    """The same for a question: its answers as items, and the rest as far as it affects any answer.

    That is who the user is, standing wishes and what is most important, the conversation that a
    follow-up question continues, and the entities that the question names. Of the memories, some
    may say hardly more than the profile. If nothing answers, they are the nearest, in their order.
    """
    ongoing = [one for one in context.conversations[:1] if context.ongoing is not None]
    told = {one.conversation_id for one in ongoing}
    taken: set[UUID] = set()
    items = []
    for item in context.relevant:
        if item.memory is not None:
            if item.memory.status in HIDDEN_STATUSES or item.memory.memory_id in taken:
                continue
            taken.add(item.memory.memory_id)
        elif item.summary_of is not None and (
            item.summary_of.conversation_id in told or not _tells(item.summary_of, lines.opened)
        ):
            continue
        items.append(item)
    # What the user says all the time, such as articles, names no line.
    rare = max(context.terms.values(), default=0.0) / 2
    asked = {term for term, weight in context.terms.items() if weight > rare}
    named: list[ProfileLine] = []
    others: list[ProfileLine] = []
    for line in profile_lines(context.profile, context.preferences):
        if not asked.isdisjoint(line.terms):
            named.append(line)
        else:
            others.append(replace(line, rank=ESSENTIAL_RANK if line.label in ESSENTIAL else 2))
    inferred = [line for line in others if line.inferred]
    profile = [*named, *(line for line in others if not line.inferred)]
    shown = [one for one in context.memories if one.status not in HIDDEN_STATUSES]
    if not context.nothing:
        # What was reached is no longer pursued.
        shown = [one for one in shown if one.origin in _TRUSTED and one.status != "achieved"]
        shown.sort(key=lambda one: one.type != "preference")
    standing = {one.memory_id: one for one in shown}
    return Material(
        lines=profile,
        inferred=inferred,
        memories=list(standing.values()),
        items=items,
        conversations=[one for one in ongoing if _tells(one, lines.opened)],
        entities=list({one.entity_id: one for one in context.entities[: context.named]}.values()),
    )


def is_in(profile: Sequence[ProfileLine], memory: Memory) -> bool:
    """Whether a memory says hardly more than the lines of the profile that rest on it.

    A wish stands as it was said: "short answers" lacks when, or for what.
    """
    if memory.type == "preference":
        return False
    memory_id = str(memory.memory_id)
    said = [each for each in profile if memory_id in each.memory_ids]
    if not said:
        return False
    return adds_nothing(
        words_of(memory.content), words_of(" ".join(f"{each.label} {each.value}" for each in said))
    )


def _tells(summary: Summary, opened: Collection[str | None]) -> bool:
    """Whether a conversation tells more than the messages that begin those in `opened`."""
    told = summary.conversation_id in opened or summary.title == NEUTRAL_TITLE
    return bool(summary.summary) or not told
