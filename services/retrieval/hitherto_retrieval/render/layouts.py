"""The built-in templates: which sections, in which order, with which headings and line shapes.

`about_the_user` follows document 004, `what_you_know` document 002, `markdown` document 001 and
`relevant_context` document 003. All of them print the profile before the memories, memories that
fit the current message before general ones, and no memory, conversation or entity twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from hitherto_retrieval.render.budget import Entry, Section, Step
from hitherto_retrieval.render.context import PromptContext, RelevantItem
from hitherto_retrieval.render.profile_lines import LEARNT, PREFERENCE, ProfileLine, profile_lines
from hitherto_retrieval.render.values import beginning, clean, labelled, shortened, source_word
from hitherto_shared.models import Entity, Memory, Summary

MAX_CONTEXT_ITEMS = 5
MAX_CONTEXT_ENTITIES = 10
"""What document 003 shows of relevant items and of known entities."""

INSTRUCTIONS_HEADING = "## Instructions:"
_INSTRUCTIONS = (
    "- Personalise your answers with what is known about the user\n"
    "- Refer to past interactions when they are relevant\n"
    "- Be concise and helpful"
)

_HIDDEN_STATUSES = ("quarantined", "forgotten")
_EXCERPT_CHARACTERS = 500
_EXCERPT_SOURCE = 4_000
"""Raw characters looked at for an excerpt; what is removed from them rarely needs that many."""
_TITLE_BYTES = 300
_PROFILE_SHARE = 0.5
_FIRST_MEMORIES = 5
_FIRST_ITEMS = 3


_TRUSTED = frozenset({"user", "operator"})
_NOT_THE_USER = {
    "assistant": " (said by the assistant)",
    "tool": " (from a tool)",
    "document": " (from a document)",
    "operator": " (from the operator)",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """A template filled with entries: lines around them, sections in print order, order of use.

    `gap` is true where a blank line stands before each heading but the first.
    """

    sections: Sequence[Section]
    plan: Sequence[Step]
    opening: str = ""
    closing: str = ""
    gap: bool = False
    instructions: Section | None = None


@dataclass(frozen=True, slots=True)
class Material:
    """A context sorted out: each thing once, nothing that must not be shown."""

    lines: Sequence[ProfileLine]
    memories: Sequence[Memory]
    items: Sequence[RelevantItem]
    conversations: Sequence[Summary]
    entities: Sequence[Entity]


def material(context: PromptContext, *, memory_items: int = 0) -> Material:
    """Sort out `context`.

    Quarantined and forgotten memories are left out whatever the caller passed. Of the relevant
    items, memories go to the front of the memories; the others stay items. `memory_items` is how
    many relevant items, from the front, stay items even if they are memories.
    """
    conversations = {one.conversation_id: one for one in context.conversations}
    memories: dict[UUID, Memory] = {}
    shown: set[UUID] = set()
    items: list[RelevantItem] = []
    for item in context.relevant:
        if item.memory is None:
            if item.conversation_id is None or item.conversation_id not in conversations:
                items.append(item)
        elif item.memory.status in _HIDDEN_STATUSES or item.memory.memory_id in shown:
            continue
        elif len(items) < memory_items:
            items.append(item)
            shown.add(item.memory.memory_id)
        else:
            memories.setdefault(item.memory.memory_id, item.memory)
    # Whatever weight a lower voice gives itself, it does not stand above what the user said.
    for memory in sorted(context.memories, key=lambda each: each.origin not in _TRUSTED):
        if memory.status not in _HIDDEN_STATUSES and memory.memory_id not in shown:
            memories.setdefault(memory.memory_id, memory)
    return Material(
        lines=profile_lines(context.profile, context.preferences),
        memories=list(memories.values()),
        items=items,
        conversations=list(conversations.values()),
        entities=list({one.entity_id: one for one in context.entities}.values()),
    )


def about_the_user(context: PromptContext, *, annotate: bool) -> Layout:
    """`[ABOUT THE USER]` … `[END ABOUT THE USER]` of document 004."""
    known = material(context)
    memories = [
        _memory_entry(one, f"- {achieved_tag(one)}", annotate=annotate) for one in known.memories
    ]
    return _planned(
        Section([Entry(f"{line.label}: ", line.value) for line in known.lines]),
        Section(memories, "Things to remember:"),
        Section(item_entries(known.items), "Related to the current message:"),
        Section(conversation_entries(known.conversations), "Recent conversations:"),
        Section(entity_entries(known.entities), "Known entities:"),
        opening="[ABOUT THE USER]",
        closing="[END ABOUT THE USER]",
    )


def what_you_know(context: PromptContext, *, annotate: bool) -> Layout:
    """`--- WHAT YOU KNOW ABOUT THIS USER ---` with `- [TYPE] …` lines, of document 002."""
    known = material(context)
    heading = "--- WHAT YOU KNOW ABOUT THIS USER ---"
    labels = {PREFERENCE: "[PREFERENCE]", LEARNT: "[PREFERENCE, learnt]"}
    profile = [
        Entry(f"- {labels[line.label]} ", line.value)
        if line.label in labels
        else Entry(f"- [PROFILE] {line.label}: ", line.value)
        for line in known.lines
    ]
    return _planned(
        Section(profile, heading),
        Section(memory_entries(known.memories, annotate=annotate), heading),
        Section(item_entries(known.items), "--- RELATED TO THE CURRENT MESSAGE ---"),
        Section(conversation_entries(known.conversations), "--- RECENT CONVERSATIONS ---"),
        Section(entity_entries(known.entities), "--- KNOWN ENTITIES ---"),
        gap=True,
    )


def markdown(context: PromptContext, *, annotate: bool) -> Layout:
    """`## About the User:` and numbered past interactions of document 001."""
    known = material(context)
    memories = [
        _memory_entry(
            one,
            f"{number}. {achieved_tag(one) or f'[{one.type}] '}",
            annotate=annotate,
        )
        for number, one in enumerate(known.memories, start=1)
    ]
    return _planned(
        Section(profile_entries(known.lines), "## About the User:"),
        Section(memories, "## Relevant Past Interactions:"),
        Section(item_entries(known.items), "## Related to the Current Message:"),
        Section(conversation_entries(known.conversations), "## Recent Conversations:"),
        Section(entity_entries(known.entities), "## Known Entities:"),
        instructions=Section([Entry(_INSTRUCTIONS, "")], INSTRUCTIONS_HEADING),
        gap=True,
    )


def relevant_context(context: PromptContext, *, annotate: bool) -> Layout:
    """`## Relevant Context:` with 5 items and `## Known Entities:` with 10, of document 003."""
    known = material(context, memory_items=MAX_CONTEXT_ITEMS)
    items = [_context_entry(one, annotate=annotate) for one in known.items[:MAX_CONTEXT_ITEMS]]
    profile = Section(profile_entries(known.lines), "## About the User:")
    relevant = Section(items, "## Relevant Context:")
    memories = Section(memory_entries(known.memories, annotate=annotate), "## Things to Remember:")
    conversations = Section(conversation_entries(known.conversations), "## Recent Conversations:")
    entities = Section(entity_entries(known.entities[:MAX_CONTEXT_ENTITIES]), "## Known Entities:")
    plan = (
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
    return Layout((profile, relevant, memories, conversations, entities), plan, gap=True)


def usefulness(
    profile: Section, memories: Section, items: Section, conversations: Section, entities: Section
) -> tuple[Step, ...]:
    """The order in which a budget is spent.

    The profile comes first but may take half at most before the rest has had its turn; one past
    conversation is worth more than the sixth memory, because a follow-up question needs it.
    """
    return (
        Step(profile, share=_PROFILE_SHARE),
        Step(memories, _FIRST_MEMORIES),
        Step(items, _FIRST_ITEMS),
        Step(conversations, 1),
        Step(memories),
        Step(items),
        Step(conversations),
        Step(entities),
        Step(profile),
    )


def _planned(
    profile: Section,
    memories: Section,
    items: Section,
    conversations: Section,
    entities: Section,
    *,
    opening: str = "",
    closing: str = "",
    gap: bool = False,
    instructions: Section | None = None,
) -> Layout:
    sections = [profile, memories, items, conversations, entities]
    plan = list(usefulness(*sections))
    if instructions is not None:
        sections.append(instructions)
        # They say how to use the lines above them: worth nothing first, little after many.
        plan.insert(4, Step(instructions))
    return Layout(sections, plan, opening, closing, gap, instructions)


def profile_entries(lines: Sequence[ProfileLine]) -> list[Entry]:
    """`- Label: value` lines."""
    return [Entry(f"- {line.label}: ", line.value) for line in lines]


def memory_entries(memories: Sequence[Memory], *, annotate: bool) -> list[Entry]:
    """`- [TYPE] content` lines."""
    return [_memory_entry(one, f"- {_type_tag(one)}", annotate=annotate) for one in memories]


def item_entries(items: Sequence[RelevantItem]) -> list[Entry]:
    """`- [SOURCE] title: text` lines for items that are no memories."""
    return [
        Entry(
            f"- [{source_word(item.source)}] ",
            labelled(_title(item.title), _excerpt(item)),
            conversation_id=item.conversation_id,
        )
        for item in items
    ]


def conversation_entries(conversations: Sequence[Summary]) -> list[Entry]:
    """`- title: summary` lines; a conversation without either is left out."""
    return [
        Entry("- ", text, conversation_id=one.conversation_id)
        for one in conversations
        if (text := _titled(one))
    ]


def entity_entries(entities: Sequence[Entity]) -> list[Entry]:
    """`- name (type)` lines, with `: email` where an address is known."""
    entries: list[Entry] = []
    for one in entities:
        email = one.metadata.get("email")
        address = clean(email) if isinstance(email, str) else ""
        suffix = f" ({one.type}): {address}" if address else f" ({one.type})"
        if name := clean(one.name):
            entries.append(Entry("- ", name, suffix, entity_id=one.entity_id))
    return entries


def achieved_tag(memory: Memory) -> str:
    """`[GOAL, achieved] ` for a goal that was reached, else nothing."""
    return f"[{memory.type.upper()}, achieved] " if memory.status == "achieved" else ""


def _type_tag(memory: Memory) -> str:
    return achieved_tag(memory) or f"[{memory.type.upper()}] "


def _memory_entry(memory: Memory, prefix: str, *, annotate: bool) -> Entry:
    suffix = _provenance(memory) if annotate else said_by(memory)
    return Entry(prefix, clean(memory.content), suffix, memory_id=memory.memory_id)


def said_by(memory: Memory) -> str:
    """Who says it, where that is not the user; else nothing."""
    return _NOT_THE_USER.get(memory.origin, "")


def _provenance(memory: Memory) -> str:
    return f" ({memory.origin}, {memory.valid_from.date().isoformat()}, id {memory.memory_id})"


def _context_entry(item: RelevantItem, *, annotate: bool) -> Entry:
    memory = item.memory
    if memory is None:
        return Entry(
            f"[{source_word(item.source)}] {_title(item.title)}".rstrip() + "\n",
            _excerpt(item, line_start=True),
            "\n---",
            conversation_id=item.conversation_id,
        )
    provenance = _provenance(memory) if annotate else said_by(memory)
    return Entry(
        f"[{source_word(item.source)}] {_type_tag(memory).rstrip()}{provenance}\n",
        _excerpt(item, line_start=True),
        "\n---",
        memory_id=memory.memory_id,
    )


def _titled(summary: Summary) -> str:
    text = clean(summary.summary)
    return labelled(_title(summary.title), text) if text else _title(summary.title)


def _title(title: str) -> str:
    return shortened(clean(title), _TITLE_BYTES)


def _excerpt(item: RelevantItem, *, line_start: bool = False) -> str:
    if summary := clean(item.summary, line_start=line_start):
        return summary
    text = clean(item.text[:_EXCERPT_SOURCE], line_start=line_start)
    return beginning(text, _EXCERPT_CHARACTERS)
