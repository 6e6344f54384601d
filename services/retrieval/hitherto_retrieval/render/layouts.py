"""The built-in templates: their sections, order, headings and line formats.

`about_the_user` follows document 004, `what_you_know` document 002, `markdown` document 001 and
`relevant_context` document 003. All print the profile before the memories, memories that match the
current message before general ones, and no memory, conversation or entity twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_retrieval.render.budget import Best, Entry, Plan, ScoredEntry, Section, Step
from hitherto_retrieval.render.context import PromptContext, RelevantItem
from hitherto_retrieval.render.lines import (
    Lines,
    achieved_tag,
    entity_entries,
    profile_entries,
    type_tag,
)
from hitherto_retrieval.render.profile_lines import LEARNT, PREFERENCE, ProfileLine, profile_lines
from hitherto_shared.models import NEUTRAL_TITLE, Entity, Memory, Summary

MAX_CONTEXT_ITEMS = 5
MAX_CONTEXT_ENTITIES = 10
"""The number of relevant items and of known entities in document 003."""

INSTRUCTIONS_HEADING = "## Instructions:"
_INSTRUCTIONS = (
    "- Personalise your answers with what is known about the user\n"
    "- Refer to past interactions when they are relevant\n"
    "- Be concise and helpful"
)

_HIDDEN_STATUSES = ("quarantined", "forgotten")
_PROFILE_SHARE = 0.5
_FIRST_MEMORIES = 5
_FIRST_ITEMS = 3

_PROFILE_FLOOR = 0.12
_ONGOING_FLOOR = 0.25
_NAMED_FLOOR = 0.05
_GENERAL_FLOOR = 0.06
"""With a question: the share of the budget that is reserved for the most important memories, before
relevance decides."""

_TRUSTED = frozenset({"user", "operator"})


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """A template filled with entries: the lines around them, sections in print order, order of use.

    `gap` is true if a blank line precedes each heading but the first.
    """

    sections: Sequence[Section]
    plan: Plan
    opening: str = ""
    closing: str = ""
    gap: bool = False
    instructions: Section | None = None


@dataclass(frozen=True, slots=True)
class SectionsOfBlock:
    """The sections that share a budget, by what they hold."""

    profile: Section
    memories: Section
    items: Section
    conversations: Section
    entities: Section


@dataclass(frozen=True, slots=True)
class Material:
    """A context prepared for printing: each item once, without items that must not be shown.

    Memories and conversations come with their scores, None if they do not answer a question.
    """

    lines: Sequence[ProfileLine]
    memories: Sequence[tuple[Memory, float | None]]
    items: Sequence[RelevantItem]
    conversations: Sequence[tuple[Summary, float | None]]
    entities: Sequence[Entity]


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
    scores: dict[str, float] = {}
    memories: dict[UUID, tuple[Memory, float | None]] = {}
    shown: set[UUID] = set()
    items: list[RelevantItem] = []
    for item in context.relevant:
        if item.memory is None:
            if item.summary_of is not None and not _tells(item.summary_of, opened):
                continue
            if item.conversation_id is None or item.conversation_id not in conversations:
                items.append(item)
            elif context.asked:
                scores.setdefault(item.conversation_id, item.score)
        elif item.memory.status in _HIDDEN_STATUSES or (shown and item.memory.memory_id in shown):
            continue
        elif len(items) < memory_items:
            items.append(item)
            shown.add(item.memory.memory_id)
        else:
            score = item.score if context.asked else None
            memories.setdefault(item.memory.memory_id, (item.memory, score))
    # A less trusted origin never ranks above the user's own statements, whatever importance it
    # claims.
    for memory in sorted(context.memories, key=lambda each: each.origin not in _TRUSTED):
        if memory.status not in _HIDDEN_STATUSES and not (shown and memory.memory_id in shown):
            memories.setdefault(memory.memory_id, (memory, None))
    return Material(
        lines=profile_lines(context.profile, context.preferences),
        memories=list(memories.values()),
        items=items,
        conversations=[(one, scores.get(key)) for key, one in conversations.items()],
        entities=list({one.entity_id: one for one in context.entities}.values()),
    )


def _tells(summary: Summary, opened: Collection[str | None]) -> bool:
    """Whether a conversation tells more than the messages that begin those in `opened`."""
    told = summary.conversation_id in opened or summary.title == NEUTRAL_TITLE
    return bool(summary.summary) or not told


def about_the_user(context: PromptContext, lines: Lines) -> PromptLayout:
    """`[ABOUT THE USER]` … `[END ABOUT THE USER]` of document 004."""
    known = material(context, lines)
    memories = [
        (lines.memory(one, f"- {achieved_tag(one)}"), score) for one, score in known.memories
    ]
    sections = SectionsOfBlock(
        Section([Entry(f"{line.label}: ", line.value) for line in known.lines]),
        Section.of(memories, "Things to remember:"),
        Section.of(item_entries(known.items, lines), "Related to the current message:"),
        Section.of(conversation_entries(known, lines), "Recent conversations:"),
        Section(entity_entries(known.entities), "Known entities:"),
    )
    return _planned(context, sections, opening="[ABOUT THE USER]", closing="[END ABOUT THE USER]")


def what_you_know(context: PromptContext, lines: Lines) -> PromptLayout:
    """`--- WHAT YOU KNOW ABOUT THIS USER ---` with `- [TYPE] …` lines, of document 002."""
    known = material(context, lines)
    heading = "--- WHAT YOU KNOW ABOUT THIS USER ---"
    labels = {PREFERENCE: "[PREFERENCE]", LEARNT: "[PREFERENCE, learnt]"}
    profile = [
        Entry(f"- {labels[line.label]} ", line.value)
        if line.label in labels
        else Entry(f"- [PROFILE] {line.label}: ", line.value)
        for line in known.lines
    ]
    sections = SectionsOfBlock(
        Section(profile, heading),
        Section.of(memory_entries(known, lines), heading),
        Section.of(item_entries(known.items, lines), "--- RELATED TO THE CURRENT MESSAGE ---"),
        Section.of(conversation_entries(known, lines), "--- RECENT CONVERSATIONS ---"),
        Section(entity_entries(known.entities), "--- KNOWN ENTITIES ---"),
    )
    return _planned(context, sections, gap=True)


def markdown(context: PromptContext, lines: Lines) -> PromptLayout:
    """`## About the User:` and numbered past interactions of document 001."""
    known = material(context, lines)
    memories = [
        (lines.memory(one, achieved_tag(one) or f"[{one.type}] "), score)
        for one, score in known.memories
    ]
    sections = SectionsOfBlock(
        Section(profile_entries(known.lines), "## About the User:"),
        Section.of(memories, "## Relevant Past Interactions:", numbered=True),
        Section.of(item_entries(known.items, lines), "## Related to the Current Message:"),
        Section.of(conversation_entries(known, lines), "## Recent Conversations:"),
        Section(entity_entries(known.entities), "## Known Entities:"),
    )
    instructions = Section([Entry(_INSTRUCTIONS, "")], INSTRUCTIONS_HEADING)
    return _planned(context, sections, instructions=instructions, gap=True)


def relevant_context(context: PromptContext, lines: Lines) -> PromptLayout:
    """`## Relevant Context:` with 5 items and `## Known Entities:` with 10, of document 003.

    Further candidates for a question follow, one line each.
    """
    known = material(context, lines, memory_items=MAX_CONTEXT_ITEMS)
    first, others = known.items[:MAX_CONTEXT_ITEMS], known.items[MAX_CONTEXT_ITEMS:]
    profile = Section(profile_entries(known.lines), "## About the User:")
    grouped = [(lines.group(one), one.score) for one in first]
    relevant = Section.of(grouped, "## Relevant Context:")
    memories = Section.of(memory_entries(known, lines), "## Things to Remember:")
    further = Section.of(
        item_entries(others, lines) if context.asked else [],
        "## Related to the Current Message:",
    )
    conversations = Section.of(conversation_entries(known, lines), "## Recent Conversations:")
    entities = Section(entity_entries(known.entities[:MAX_CONTEXT_ENTITIES]), "## Known Entities:")
    of = SectionsOfBlock(profile, memories, relevant, conversations, entities)
    plan: Plan = (
        Step(profile, share=_PROFILE_SHARE),
        Step(relevant, _FIRST_ITEMS),
        Step(memories, _FIRST_MEMORIES),
        Step(conversations, 1),
        Step(relevant),
        Step(memories),
        Step(conversations),
        Step(entities),
        Step(profile),
    )
    if context.asked:
        best = Best((relevant, memories, further, conversations))
        plan = (*floor(context, of), best, *plan)
    sections = (profile, relevant, memories, further, conversations, entities)
    return PromptLayout(sections, plan, gap=True)


def floor(context: PromptContext, of: SectionsOfBlock) -> tuple[Step, ...]:
    """With a question, the steps before relevance: what affects any answer.

    The profile, the conversation that a follow-up question continues, the entities that the
    question names, and the most important memories.
    """
    ongoing = context.ongoing is not None
    return (
        Step(of.profile, share=_PROFILE_FLOOR, skips=True),
        *([Step(of.conversations, 1, share=_ONGOING_FLOOR)] if ongoing else []),
        Step(of.entities, context.named, share=_NAMED_FLOOR, skips=True),
        Step(of.memories, _FIRST_MEMORIES, share=_GENERAL_FLOOR, skips=True, general=True),
    )


def usefulness(of: SectionsOfBlock) -> tuple[Step, ...]:
    """The order in which a budget is spent.

    The profile comes first, but takes at most half before the others have had their share; one past
    conversation is worth more than the sixth memory, because a follow-up question needs it.
    """
    return (
        Step(of.profile, share=_PROFILE_SHARE),
        Step(of.memories, _FIRST_MEMORIES),
        Step(of.items, _FIRST_ITEMS),
        Step(of.conversations, 1),
        Step(of.memories),
        Step(of.items),
        Step(of.conversations),
        Step(of.entities),
        Step(of.profile),
    )


def planned(context: PromptContext, of: SectionsOfBlock) -> tuple[Step | Best, ...]:
    """The order in which a budget is spent, with or without a question."""
    general = usefulness(of)
    if not context.asked:
        return general
    return (*floor(context, of), Best((of.memories, of.items, of.conversations)), *general)


def memory_entries(known: Material, lines: Lines) -> list[ScoredEntry]:
    """`- [TYPE] content` lines."""
    return [(lines.memory(one, f"- {type_tag(one)}"), score) for one, score in known.memories]


def item_entries(items: Sequence[RelevantItem], lines: Lines) -> list[ScoredEntry]:
    """`- [SOURCE] title: text` lines."""
    return [(lines.item(one), one.score) for one in items]


def conversation_entries(known: Material, lines: Lines) -> list[ScoredEntry]:
    """`- title: summary` lines."""
    return [(lines.conversation(one), score) for one, score in known.conversations]


def _planned(
    context: PromptContext,
    of: SectionsOfBlock,
    *,
    opening: str = "",
    closing: str = "",
    gap: bool = False,
    instructions: Section | None = None,
) -> PromptLayout:
    sections = [of.profile, of.memories, of.items, of.conversations, of.entities]
    plan = list(planned(context, of))
    if instructions is not None:
        sections.append(instructions)
        # They explain how to use the lines above them: useless at first, cheap after many.
        after = next((at for at, step in enumerate(plan) if isinstance(step, Best)), 3)
        plan.insert(after + 1, Step(instructions))
    return PromptLayout(sections, plan, opening, closing, gap, instructions)
